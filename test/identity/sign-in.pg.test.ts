/** Signing in to the real server with access tokens of a real identity provider. */
import { decodeJwt, importJWK, SignJWT } from 'jose';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startProvider, audience, type TestProvider } from '../lib/provider.ts';
import { startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let now: () => number = Date.now;
beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  server = await startTestServer(postgres, {
    clock: () => now(),
    oidcIssuer: [provider.issuer],
    oidcAudience: [audience],
    issuer: { cooldownMs: 0 },
  });
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

it('a person is known from the first request on, and is the same at every later sign-in', async () => {
  const first = await provider.signIn('alice');
  const api = server.nobody.as(first.accessToken);
  const me = await api.expect(200, 'GET', '/api/users/me');
  expect(me.username).toBe('alice@example.org');
  expect(me).not.toHaveProperty('is_administrator');
  const organization = await api.expect(201, 'POST', '/api/organizations', { name: 'acme' });
  expect(organization.owner_id).toBe(me.id);

  const again = server.nobody.as((await provider.signIn('alice')).accessToken);
  expect((await again.expect(200, 'GET', '/api/users/me')).id).toBe(me.id);
  const other = server.nobody.as((await provider.signIn('bob')).accessToken);
  await other.expect(404, 'GET', `/api/organizations/${organization.id}`);
});

it('many first requests at once make one user', async () => {
  const { accessToken } = await provider.signIn('crowd');
  const api = server.nobody.as(accessToken);
  const answers = await Promise.all(Array.from({ length: 10 }, () => api.expect(200, 'GET', '/api/users/me')));
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
});

it('a name that a local user has gives no right over that user', async () => {
  const local = await server.admin.expect(201, 'POST', '/api/users', { username: 'eve@example.org' });
  const { accessToken } = await provider.signIn('eve');
  const me = await server.nobody.as(accessToken).expect(200, 'GET', '/api/users/me');
  expect(me.id).not.toBe(local.id);
  expect(me.username).toMatch(/^eve@example\.org-/);
});

it('a name that looks like that of another user is told apart from it, and what cannot be seen in a name is left out', async () => {
  await server.admin.expect(201, 'POST', '/api/users', { username: 'mallory@example.org' });
  const nameOf = async (login: string): Promise<string> => {
    const { accessToken } = await provider.signIn(login);
    return (await server.nobody.as(accessToken).expect(200, 'GET', '/api/users/me')).username;
  };
  expect(await nameOf('Mallory')).toMatch(/^Mallory@example\.org-[0-9a-f]{4}$/);
  expect(await nameOf('mal\u200blory')).toMatch(/^mallory@example\.org-[0-9a-f]{4}$/);
  // Letters of two scripts: the subject, which is not better here, and then nothing of it.
  expect(await nameOf('m\u0430llory')).toMatch(/^user(-[0-9a-f]{4})?$/);
  expect(await nameOf('trent\u202e')).toBe('trent@example.org');
});

it('a key rotation at the provider interrupts nobody', async () => {
  const before = (await provider.signIn('alice')).accessToken;
  await server.nobody.as(before).expect(200, 'GET', '/api/users/me');
  await provider.rotate();
  const after = (await provider.signIn('alice')).accessToken;
  expect((await server.nobody.as(after).get('/api/users/me')).status).toBe(200);
  expect((await server.nobody.as(before).get('/api/users/me')).status).toBe(200);
});

it('a bad token is a 401 that says why and repeats nothing', async () => {
  const { idToken, accessToken } = await provider.signIn('alice');
  const answer = await server.nobody.as(idToken).get('/api/users/me');
  expect(answer.status).toBe(401);
  expect(answer.json).toMatchObject({
    code: 'unauthenticated',
    detail: 'The access token is meant for another audience.',
  });
  expect(answer.headers['www-authenticate']).toBe('Bearer realm="ringfence", error="invalid_token"');
  for (const token of [idToken, accessToken])
    for (const part of token.split('.')) expect(server.logged()).not.toContain(part);
});

it('a signed token with a claim that cannot be kept is a 401, and no two subjects are one user', async () => {
  const { accessToken } = await provider.signIn('alice');
  const key = provider.key();
  const ask = async (claims: Readonly<Record<string, unknown>>) => {
    const signing = new SignJWT({ ...decodeJwt(accessToken), ...claims });
    const token = await signing.setProtectedHeader({ alg: 'ES256', kid: key.kid ?? '' }).sign(await importJWK(key));
    return server.nobody.as(token).get('/api/users/me');
  };
  for (const claims of [{ exp: 9e15 }, { exp: 1e12 }, { sub: 5 }, { sub: ['alice'] }, { sub: 'a\u0000' }]) {
    const { status, json } = await ask(claims);
    expect([status, json.code], JSON.stringify(claims)).toEqual([401, 'unauthenticated']);
  }
  expect((await ask({ sub: 'a\ufffd' })).status).toBe(200);
  expect((await ask({ sub: 'a\ud800' })).status).toBe(401);
});

it('an expired token is a 401, and a stream that it opened has ended with it', async () => {
  const { accessToken } = await provider.signIn('dora');
  const api = server.nobody.as(accessToken);
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'short' });
  const { exp = 0 } = decodeJwt(accessToken);
  // The last moment at which the server accepts the token, including the tolerance. The clock is stopped there.
  let moment = (exp + 30) * 1000 - 1;
  now = () => moment;
  const stream = new EventStream(server.url, accessToken, org, [{ kind: 'device' }]);
  try {
    await stream.tail();
    expect((await api.get('/api/users/me')).status).toBe(200);
    expect(stream.body.ended).toBe(false);
    moment += 1;
    await stream.until('its end', ({ body }) => body.ended);
    const answer = await api.get('/api/users/me');
    expect(answer.status).toBe(401);
    expect(answer.json.detail).toBe('The access token has expired.');
  } finally {
    stream.close();
    now = Date.now;
  }
});

it('while the provider is away a server that never saw its keys answers 503, and starts all the same', async () => {
  const { accessToken } = await provider.signIn('alice');
  provider.unreachable(true);
  let moment = Date.now();
  const late = await startTestServer(postgres, {
    url: server.databaseUrl,
    oidcIssuer: [provider.issuer],
    oidcAudience: [audience],
    clock: () => moment,
    issuer: { retryMs: 1000, retryMostMs: 1000 },
  });
  try {
    const answer = await late.nobody.as(accessToken).get('/api/users/me');
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('1');
    await late.admin.expect(200, 'GET', '/api/users/me');
    provider.unreachable(false);
    expect((await late.nobody.as(accessToken).get('/api/users/me')).status).toBe(503);
    moment += 1000;
    await late.nobody.as(accessToken).expect(200, 'GET', '/api/users/me');
  } finally {
    provider.unreachable(false);
    await late.close();
  }
});

it('a server without an issuer takes no signed token', async () => {
  const plain = await startTestServer(postgres, { url: server.databaseUrl });
  try {
    const { accessToken } = await provider.signIn('alice');
    expect((await plain.nobody.as(accessToken).get('/api/users/me')).status).toBe(401);
  } finally {
    await plain.close();
  }
});
