/** What the server believes of an identity provider that lies: every way in which an ID token can be wrong, at a provider made for it. */
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type CryptoKey } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { Issuer } from '../../src/server/identity/issuer.ts';
import { RelyingParty, SignInError } from '../../src/server/identity/relying-party.ts';

const issuer = 'https://login.example.org';
const clientId = 'ringfence';
const start = Date.parse('2026-11-15T12:00:00Z');

let good: CryptoKey;
let other: CryptoKey;
let jwks: object;
beforeAll(async () => {
  const pair = await generateKeyPair('ES256', { extractable: true });
  good = pair.privateKey;
  other = (await generateKeyPair('ES256')).privateKey;
  jwks = { keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'k', alg: 'ES256', use: 'sig' }] };
});

interface Lies {
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly sign?: 'other key' | 'none' | 'shared secret';
  readonly document?: Readonly<Record<string, unknown>>;
  readonly tokens?: Readonly<Record<string, unknown>>;
  readonly status?: number;
  readonly userinfo?: Readonly<Record<string, unknown>>;
  readonly clientSecret?: string;
}

/** A sign-in from beginning to end at a provider that lies so; gives who it was, and what the token endpoint was sent. */
async function signIn({
  claims = {},
  sign,
  document = {},
  tokens = {},
  status = 200,
  userinfo,
  clientSecret,
}: Lies = {}) {
  let nonce = '';
  const sent: { form: URLSearchParams; authorization: string | null }[] = [];
  const said = {
    issuer,
    jwks_uri: `${issuer}/jwks`,
    authorization_endpoint: `${issuer}/auth?tenant=1`,
    token_endpoint: `${issuer}/token`,
    userinfo_endpoint: `${issuer}/me`,
    ...document,
  };
  const idToken = async (): Promise<string> => {
    const payload = {
      iss: issuer,
      aud: clientId,
      sub: 'ada',
      nonce,
      iat: start / 1000,
      exp: start / 1000 + 300,
      preferred_username: 'ada@example.org',
      ...claims,
    };
    const known = Object.fromEntries(Object.entries(payload).filter(([, value]) => value !== undefined));
    if (sign === 'none') return new UnsecuredJWT(known).encode();
    if (sign === 'shared secret') {
      return new SignJWT(known).setProtectedHeader({ alg: 'HS256', kid: 'k' }).sign(Buffer.from('x'.repeat(32)));
    }
    return new SignJWT(known).setProtectedHeader({ alg: 'ES256', kid: 'k' }).sign(sign === 'other key' ? other : good);
  };
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { url } = new Request(input);
    if (url.endsWith('/openid-configuration')) return Response.json(said);
    if (url.endsWith('/jwks')) return Response.json(jwks);
    if (url.endsWith('/me'))
      return userinfo === undefined ? new Response('', { status: 500 }) : Response.json(userinfo);
    sent.push({
      form: new URLSearchParams(init?.body as URLSearchParams),
      authorization: new Headers(init?.headers).get('authorization'),
    });
    return Response.json({ id_token: await idToken(), access_token: 'a', token_type: 'Bearer', ...tokens }, { status });
  };
  const clock = (): number => start;
  const party = new RelyingParty({
    issuer: new Issuer({ issuer, clock, fetch }),
    clientId,
    clientSecret,
    redirectUri: () => 'https://ringfence.example/api/auth/callback',
    homeUri: () => 'https://ringfence.example/ui/',
    scopes: 'openid profile',
    usernameClaim: 'preferred_username',
    toleranceSeconds: 30,
    clock,
    random: (bytes) => void bytes.fill(7),
    takeTicket: () => Promise.resolve(true),
    fetch,
  });
  const { location, ticket } = await party.begin('/ui/o/1');
  const asked = new URL(location).searchParams;
  nonce = asked.get('nonce') ?? '';
  const given = new URLSearchParams({ code: 'c', state: asked.get('state') ?? '' });
  return { signedIn: await party.finish(ticket, given), asked, sent };
}

const failure = (lies: Lies): Promise<unknown> =>
  signIn(lies).then(
    () => 'signed in',
    (error: unknown) => (error instanceof SignInError ? error.code : error),
  );

it('an honest provider signs a person in, and keeps the parameters of its own address', async () => {
  const { signedIn, asked, sent } = await signIn();
  expect(signedIn).toMatchObject({
    identity: { issuer, subject: 'ada', username: 'ada@example.org' },
    returnTo: '/ui/o/1',
  });
  expect(asked.get('tenant')).toBe('1');
  const { form, authorization } = sent[0] ?? expect.fail('nothing was sent');
  expect(authorization).toBeNull();
  expect(Object.fromEntries(form)).toMatchObject({ client_id: clientId, code: 'c', grant_type: 'authorization_code' });
  expect(form.get('code_verifier')).toMatch(/^[\w-]{43}$/);
  expect(form.get('code_verifier')).not.toBe(asked.get('code_challenge'));
});

describe('a client with a secret proves itself', () => {
  it('in the header, with everything encoded', async () => {
    const { sent } = await signIn({ clientSecret: 'a b:c' });
    expect(sent[0]?.authorization).toBe(`Basic ${Buffer.from('ringfence:a+b%3Ac').toString('base64')}`);
    expect(sent[0]?.form.has('client_secret')).toBe(false);
  });

  it('in the form, where the provider wants it there', async () => {
    const document = { token_endpoint_auth_methods_supported: ['client_secret_post'] };
    const { sent } = await signIn({ clientSecret: 's', document });
    expect([sent[0]?.authorization, sent[0]?.form.get('client_secret')]).toEqual([null, 's']);
  });
});

describe('nobody is signed in by', () => {
  it.each<[string, Lies]>([
    ['a token signed with a shared secret', { sign: 'shared secret' }],
    ['a token signed with another key', { sign: 'other key' }],
    ['a token of another issuer', { claims: { iss: 'https://evil.example' } }],
    ['a token for another client', { claims: { aud: 'another' } }],
    ['a token for several clients that does not say which', { claims: { aud: [clientId, 'another'] } }],
    ['a token that was given to another client', { claims: { aud: [clientId, 'another'], azp: 'another' } }],
    ['an expired token', { claims: { exp: start / 1000 - 31 } }],
    ['a token that was issued an hour ahead', { claims: { iat: start / 1000 + 3_600, exp: start / 1000 + 7_200 } }],
    ['a token that was issued ahead by more than clocks may differ', { claims: { iat: start / 1000 + 31 } }],
    ['a token that never ends', { claims: { exp: undefined } }],
    ['a token with another nonce: one of another sign-in', { claims: { nonce: 'x'.repeat(43) } }],
    ['a token without a nonce', { claims: { nonce: undefined } }],
    ['a token that names nobody', { claims: { sub: '' } }],
    ['a token that names somebody by a number', { claims: { sub: 5 } }],
    [
      'a token with half a surrogate pair, which the database would keep as another subject',
      { claims: { sub: 'a\ud800' } },
    ],
    ['an answer without an ID token', { tokens: { id_token: undefined } }],
    ['a refused client', { status: 401, tokens: { error: 'invalid_client' } }],
  ])('%s', async (_what, lies) => {
    expect(await failure(lies)).toBe('refused');
  });

  it('a token without a signature: alg none', async () => {
    expect(await failure({ sign: 'none' })).toBe('refused');
  });

  it('a code that was used already', async () => {
    expect(await failure({ status: 400, tokens: { error: 'invalid_grant' } })).toBe('guess');
  });

  it.each(['authorization_endpoint', 'token_endpoint'])('a provider whose %s is not safe', async (name) => {
    expect(await failure({ document: { [name]: 'http://login.example.org/x' } })).toBe('retry');
    expect(await failure({ document: { [name]: undefined } })).toBe('retry');
  });

  it('a provider that must name itself in its answer and does not', async () => {
    expect(await failure({ document: { authorization_response_iss_parameter_supported: true } })).toBe('refused');
  });
});

describe('a name that the ID token lacks', () => {
  const claims = { preferred_username: undefined };

  it('is asked of the provider', async () => {
    const { signedIn } = await signIn({ claims, userinfo: { sub: 'ada', preferred_username: 'Ada' } });
    expect(signedIn.identity.username).toBe('Ada');
  });

  it('is the verified address, or else the full name, before the subject', async () => {
    const nameOf = async (lies: Lies): Promise<string> => (await signIn(lies)).signedIn.identity.username;
    const said = { ...claims, name: 'Ada Lovelace', email: 'Ada@Example.org', email_verified: true };
    expect(await nameOf({ claims: said })).toBe('ada@example.org');
    expect(await nameOf({ claims, userinfo: { ...said, sub: 'ada' } })).toBe('ada@example.org');
    for (const email_verified of [false, 'true', undefined])
      expect(await nameOf({ claims: { ...said, email_verified } })).toBe('Ada Lovelace');
    expect(await nameOf({ claims: { ...said, preferred_username: 'countess' } })).toBe('countess');
  });

  it('is not taken from what is said of somebody else, and is not needed', async () => {
    for (const lies of [{ claims, userinfo: { sub: 'eve', preferred_username: 'root' } }, { claims }]) {
      expect((await signIn(lies)).signedIn.identity).toMatchObject({ subject: 'ada', username: 'ada' });
    }
  });
});
