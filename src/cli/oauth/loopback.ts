/**
 * Owns the sign-in through a browser on this machine: the provider redirects it to a port that this program listens on
 * (RFC 8252).
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { calculatePKCECodeChallenge, generateRandomCodeVerifier, generateRandomState } from 'oauth4webapi';
import { CliError } from '../terminal/exit.ts';
import { endpoint, readAnswer, redeem, resourceOf, type OAuthClient, type Provider, type Tokens } from './provider.ts';

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

const timeoutMs = 600_000;

/** Shows the address by `show`, waits for the browser, and redeems what it brings. */
export async function signInByBrowser(
  client: OAuthClient,
  provider: Provider,
  { show, signal }: { readonly show: (address: string) => void; readonly signal: AbortSignal },
): Promise<Tokens> {
  const [state, verifier] = [generateRandomState(), generateRandomCodeVerifier()];
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening', { signal });
  const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    const coming = new Promise<URLSearchParams>((resolve, reject) => {
      const onAbort = (): void => reject(new CliError('failed', 'the sign-in timed out; run `ringfence login` again'));
      limit.addEventListener('abort', onAbort, { once: true });
      server.on('request', (request, response) => {
        const url = new URL(request.url ?? '/', redirectUri);
        // Another program that connects to this port learns nothing and stops nothing.
        if (url.pathname !== '/callback' || url.searchParams.get('state') !== state) {
          answer(response, 404, 'Not found', 'There is no page here.');
          return;
        }
        try {
          resolve(readAnswer(client, provider, url.searchParams, state));
          answer(response, 200, 'Signed in', 'Go back to the terminal; you can close this tab.');
        } catch (error) {
          answer(response, 400, 'Not signed in', 'Go back to the terminal.');
          reject(error);
        }
      });
    });
    coming.catch(() => undefined);
    const address = new URL(endpoint(provider, 'authorization_endpoint'));
    const asked = {
      ...client.parameters,
      ...resourceOf(client),
      response_type: 'code',
      client_id: client.client_id,
      redirect_uri: redirectUri,
      scope: client.scopes,
      state,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      // Without a question some providers give no refresh token.
      ...(client.scopes.split(' ').includes('offline_access') ? { prompt: 'consent' } : {}),
    };
    for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
    show(address.href);
    return await redeem(client, provider, { answer: await coming, redirectUri, verifier }, signal);
  } finally {
    server.close();
    server.closeIdleConnections();
  }
}
