/** Owns the sign-in by a browser on this machine: the provider sends it back to a port that this program listens on (RFC 8252). */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CliError } from '../terminal/exit.ts';
import { endpoint, redeem, type Endpoints, type OAuthClient, type Tokens } from './provider.ts';

const page = (title: string, text: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><h1>${title}</h1><p>${text}</p></html>\n`;

function answer(response: ServerResponse, status: number, title: string, text: string): void {
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "default-src 'none'",
    connection: 'close',
  });
  response.end(page(title, text));
}

const patienceMs = 600_000;

/** Shows the address by `show`, waits for the browser, and redeems what it brings. */
export async function signInByBrowser(
  client: OAuthClient,
  endpoints: Endpoints,
  { show, signal }: { readonly show: (address: string) => void; readonly signal: AbortSignal },
): Promise<Tokens> {
  const secret = (): string => randomBytes(32).toString('base64url');
  const [state, verifier] = [secret(), secret()];
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening', { signal });
  const redirect_uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]);
  try {
    const coming = new Promise<string>((resolve, reject) => {
      limit.addEventListener(
        'abort',
        () => reject(new CliError('failed', 'nobody signed in; run `ringfence login` again')),
        {
          once: true,
        },
      );
      server.on('request', (request, response) => {
        const url = new URL(request.url ?? '/', redirect_uri);
        const given = url.searchParams;
        // Whoever else knocks at this port learns nothing and stops nothing.
        if (url.pathname !== '/callback' || given.get('state') !== state) {
          answer(response, 404, 'Nothing here', 'This is not the way in.');
          return;
        }
        const iss = given.get('iss');
        const code = given.get('code');
        if ((iss !== null && iss !== client.issuer) || code === null) {
          answer(response, 400, 'Not signed in', 'Go back to the terminal.');
          const denied = given.get('error') === 'access_denied' && iss === (iss === null ? null : client.issuer);
          reject(new CliError('notAllowed', denied ? 'the sign-in was denied' : 'the identity provider refused'));
          return;
        }
        answer(response, 200, 'Signed in', 'Go back to the terminal; you can close this tab.');
        resolve(code);
      });
    });
    coming.catch(() => undefined);
    const address = new URL(endpoint(endpoints, 'authorization_endpoint', client.issuer));
    const asked = {
      ...client.parameters,
      response_type: 'code',
      client_id: client.client_id,
      redirect_uri,
      scope: client.scopes,
      state,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      // Without a question some providers give no refresh token.
      ...(client.scopes.split(' ').includes('offline_access') ? { prompt: 'consent' } : {}),
    };
    for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
    show(address.href);
    const code = await coming;
    return await redeem(client, endpoints, { code, redirect_uri, code_verifier: verifier }, signal);
  } finally {
    server.close();
    server.closeIdleConnections();
  }
}
