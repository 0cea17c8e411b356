/** Owns the identity provider that tests sign in at: a real one on a free port of this machine, whose keys can be changed. */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { Provider, type Configuration } from 'oidc-provider';

export const audience = 'urn:ringfence:test';

export interface SignedIn {
  readonly accessToken: string;
  readonly idToken: string;
}

export interface TestProvider {
  readonly issuer: string;
  /** The private key that signs at the moment, to forge what the provider would never sign. */
  readonly key: () => JWK;
  /** The whole way of a person: authorization code with PKCE, sign-in, consent, code for tokens. */
  signIn(login: string): Promise<SignedIn>;
  /** A new key signs from now on; the old ones are published still, unless `forget`. */
  rotate(options?: { readonly forget?: boolean }): Promise<void>;
  /** How often its keys were fetched. */
  readonly keysFetched: () => number;
  /** As if the network were down, until it is told otherwise. */
  unreachable(down: boolean): void;
  stop(): Promise<void>;
}

const redirectUri = 'http://127.0.0.1/callback';

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: randomBytes(6).toString('hex'), alg: 'ES256', use: 'sig' };
}

function configuration(keys: readonly JWK[], tokenSeconds: number): Configuration {
  return {
    clients: [
      {
        client_id: 'tests',
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        grant_types: ['authorization_code'],
        response_types: ['code'],
        redirect_uris: [redirectUri],
        id_token_signed_response_alg: 'ES256',
      },
    ],
    jwks: { keys: [...keys] as NonNullable<Configuration['jwks']>['keys'] },
    cookies: { keys: ['only for tests'] },
    ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: tokenSeconds, IdToken: 600 },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    features: {
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: 'openid',
          audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL: tokenSeconds,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    extraTokenClaims: (_context, token) => ({
      preferred_username: 'accountId' in token ? `${token.accountId}@example.org` : 'nobody',
    }),
  };
}

/** One browser: follows redirects at the provider, keeps its cookies, fills in its forms. */
class Browser {
  readonly #cookies = new Map<string, string>();

  async go(url: string, form?: Readonly<Record<string, string>>): Promise<Response> {
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const line of answer.headers.getSetCookie()) {
      const [pair = ''] = line.split(';');
      const at = pair.indexOf('=');
      this.#cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
    return answer;
  }
}

async function signIn(issuer: string, login: string): Promise<SignedIn> {
  const verifier = randomBytes(32).toString('base64url');
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const browser = new Browser();
  const asked = new URLSearchParams({
    client_id: 'tests',
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: 'openid',
    code_challenge: challenge,
    code_challenge_method: 'S256',
  });
  let at = `${issuer}/auth?${asked.toString()}`;
  for (let step = 0; step < 12 && !at.startsWith(redirectUri); step += 1) {
    const page = await browser.go(at);
    const next = page.headers.get('location');
    if (next !== null) {
      await page.body?.cancel();
      at = new URL(next, issuer).href;
      continue;
    }
    const html = await page.text();
    const prompt = /name="prompt" value="(\w+)"/.exec(html)?.[1];
    if (prompt === undefined) throw new Error(`the provider shows no form: ${html.slice(0, 500)}`);
    const sent = await browser.go(at, { prompt, login, password: 'any' });
    at = new URL(sent.headers.get('location') ?? '', issuer).href;
  }
  const code = new URL(at).searchParams.get('code');
  if (code === null) throw new Error(`no code came back: ${at}`);
  const answer = await fetch(`${issuer}/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: 'tests',
      redirect_uri: redirectUri,
      code,
      code_verifier: verifier,
    }),
  });
  const tokens = (await answer.json()) as { access_token?: string; id_token?: string };
  if (tokens.access_token === undefined || tokens.id_token === undefined)
    throw new Error(`no tokens came: ${JSON.stringify(tokens)}`);
  return { accessToken: tokens.access_token, idToken: tokens.id_token };
}

export async function startProvider({ tokenSeconds = 600 } = {}): Promise<TestProvider> {
  let handler: (request: IncomingMessage, response: ServerResponse) => void = () => {};
  let down = false;
  let keysFetched = 0;
  const server = createServer((request, response) => {
    if (down) request.socket.destroy();
    else {
      if (request.url === '/jwks') keysFetched += 1;
      handler(request, response);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let keys: readonly JWK[] = [];
  const serve = (): void => {
    const callback = new Provider(issuer, configuration(keys, tokenSeconds)).callback();
    handler = (request, response) => void callback(request, response);
  };
  const rotate = async ({ forget = false } = {}): Promise<void> => {
    keys = [await newKey(), ...(forget ? [] : keys)];
    serve();
  };
  await rotate();
  return {
    issuer,
    key() {
      const [key] = keys;
      if (key === undefined) throw new Error('a provider has a key');
      return key;
    },
    signIn: (login) => signIn(issuer, login),
    rotate,
    keysFetched: () => keysFetched,
    unreachable: (now) => void (down = now),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
