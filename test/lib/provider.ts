/** Owns the identity provider that tests sign in at: a real one on a free port of this machine, whose keys can be changed. */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { errors, Provider, type ClientMetadata, type Configuration } from 'oidc-provider';
import { Person } from './person.ts';

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
  /** From now on the server at this address may sign browsers in, as `webClient`; a public client has no secret. */
  serveWeb(url: string, options?: { readonly isPublic?: boolean }): void;
  /** From now on it gives tokens for this resource (RFC 8707) too: for another audience than that, or unreadable, where said so. */
  serveResource(resource: string, options?: ServedResource): void;
  /** As if an administrator had closed the account: it signs in no more, and its refresh tokens end. */
  disown(login: string): void;
  /** What it says about this person from now on, beside the subject, in ID tokens, userinfo and access tokens. */
  describe(login: string, claims: PersonClaims): void;
  /** How often its token endpoint was asked. */
  readonly tokensAsked: () => number;
  /** With true, its token endpoint answers only when it is called with false; gives how many wait. */
  holdTokens(hold: boolean): number;
  /** How often its keys were fetched. */
  readonly keysFetched: () => number;
  /** With true, behaves as if the network were down, until it is called with false. */
  unreachable(down: boolean): void;
  stop(): Promise<void>;
}

export interface PersonClaims {
  readonly preferred_username?: string;
  readonly email?: string;
  readonly email_verified?: unknown;
}

export interface ServedResource {
  readonly audience?: string;
  readonly format?: 'jwt' | 'opaque';
}

const redirectUri = 'http://127.0.0.1/callback';

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: randomBytes(6).toString('hex'), alg: 'ES256', use: 'sig' };
}

/** For programs: the command line, and tests that want an access token. */
const program: ClientMetadata = {
  client_id: 'tests',
  token_endpoint_auth_method: 'none',
  application_type: 'native',
  grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
  response_types: ['code'],
  redirect_uris: [redirectUri],
  id_token_signed_response_alg: 'ES256',
};

export const webClient = { id: 'web', secret: 'the secret of the web client' } as const;

/** For a server that signs browsers in. */
const web = (url: string, isPublic: boolean): ClientMetadata => ({
  client_id: webClient.id,
  ...(isPublic ? { token_endpoint_auth_method: 'none' } : { client_secret: webClient.secret }),
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  redirect_uris: [`${url}/api/auth/callback`],
  post_logout_redirect_uris: [`${url}/ui/`],
  id_token_signed_response_alg: 'ES256',
});

interface Changing {
  readonly keys: readonly JWK[];
  readonly clients: readonly ClientMetadata[];
  readonly disowned: ReadonlySet<string>;
  readonly tokenSeconds: number;
  readonly resources: ReadonlyMap<string, ServedResource>;
  readonly people: ReadonlyMap<string, PersonClaims>;
}

function configuration({ keys, clients, disowned, tokenSeconds, resources, people }: Changing): Configuration {
  const claimsOf = (id: string) => ({ preferred_username: `${id}@example.org`, ...people.get(id) });
  return {
    clients: [...clients],
    jwks: { keys: [...keys] as NonNullable<Configuration['jwks']>['keys'] },
    cookies: { keys: ['only for tests'] },
    ttl: {
      Interaction: 600,
      Session: 600,
      Grant: 600,
      AccessToken: tokenSeconds,
      IdToken: 600,
      RefreshToken: 600,
      DeviceCode: 600,
    },
    scopes: ['openid', 'offline_access', 'profile', 'email'],
    claims: { openid: ['sub'], profile: ['preferred_username'], email: ['email', 'email_verified'] },
    findAccount: (_context, id) =>
      disowned.has(id) ? undefined : { accountId: id, claims: () => ({ sub: id, ...claimsOf(id) }) },
    issueRefreshToken: async (_context, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    features: {
      devInteractions: { enabled: true },
      deviceFlow: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (_context, client) => (client?.clientId === webClient.id ? [] : audience),
        useGrantedResource: () => true,
        getResourceServerInfo: (_context, resource) => {
          const served = resources.get(resource);
          if (served === undefined) throw new errors.InvalidTarget();
          return {
            scope: 'openid profile offline_access',
            audience: served.audience ?? resource,
            accessTokenFormat: served.format ?? 'jwt',
            accessTokenTTL: tokenSeconds,
            jwt: { sign: { alg: 'ES256' } },
          };
        },
      },
    },
    extraTokenClaims: (_context, token) =>
      'accountId' in token ? claimsOf(token.accountId) : { preferred_username: 'nobody' },
  };
}

async function signIn(issuer: string, login: string): Promise<SignedIn> {
  const verifier = randomBytes(32).toString('base64url');
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const asked = new URLSearchParams({
    client_id: 'tests',
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: 'openid',
    code_challenge: challenge,
    code_challenge_method: 'S256',
  });
  const { url: at } = await new Person(login).follow(`${issuer}/auth?${asked.toString()}`, { stop: redirectUri });
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
  let tokensAsked = 0;
  let held: (() => void)[] | undefined;
  // A connection that it closed for being idle, at the moment of the next request, would be an error of the test.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    if (down) request.socket.destroy();
    else {
      if (request.url === '/jwks') keysFetched += 1;
      if (request.url === '/token') tokensAsked += 1;
      if (request.url === '/token' && held !== undefined) held.push(() => handler(request, response));
      else handler(request, response);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let keys: readonly JWK[] = [];
  let clients: readonly ClientMetadata[] = [program];
  const disowned = new Set<string>();
  const people = new Map<string, PersonClaims>();
  const resources = new Map<string, ServedResource>([[audience, {}]]);
  const serve = (): void => {
    const provider = new Provider(issuer, configuration({ keys, clients, disowned, tokenSeconds, resources, people }));
    // Programs that wait for a code may ask every second, so that tests need not wait for five.
    provider.use(async (context, next) => {
      await next();
      if (context.path === '/device/auth' && context.status === 200)
        Object.assign(context.body as object, { interval: 1 });
    });
    const callback = provider.callback();
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
    serveWeb(url, { isPublic = false } = {}) {
      clients = [program, web(url, isPublic)];
      serve();
    },
    serveResource: (resource, options = {}) => void resources.set(resource, options),
    disown: (login) => void disowned.add(login),
    describe: (login, claims) => void people.set(login, claims),
    rotate,
    tokensAsked: () => tokensAsked,
    holdTokens(hold) {
      const waiting = held ?? [];
      held = hold ? waiting : undefined;
      if (!hold) for (const answer of waiting) answer();
      return waiting.length;
    },
    keysFetched: () => keysFetched,
    unreachable: (now) => void (down = now),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
