/** Signing browsers in at a real identity provider: the whole way, what may go wrong on it, and what a session can do. */
import { randomFillSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isSafeUrl } from '../../src/node/safe-url.ts';
import { newTicket, type Ticket } from '../../src/server/identity/ticket.ts';
import type { Answered, Json } from '../lib/http.ts';
import { Person } from '../lib/person.ts';
import { temporaryDirectory } from '../lib/postgres.ts';
import { audience, startProvider, webClient, type TestProvider } from '../lib/provider.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let secretFile: string;
let now: () => number = Date.now;
const sessionCheck = 60;
const sessionIdle = 600;
const sessionLifetime = 3600;

const values = () => ({
  oidcIssuer: [provider.issuer],
  oidcAudience: [audience],
  oidcClientId: webClient.id,
  oidcClientSecretFile: secretFile,
  oidcCliClientId: 'tests',
  sessionCheck,
  sessionIdle,
  sessionLifetime,
  clock: () => now(),
  issuer: { cooldownMs: 0 },
});

beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  secretFile = join(await temporaryDirectory(), 'client-secret');
  await writeFile(secretFile, `${webClient.secret}\n`);
  server = await startTestServer(postgres, values());
  provider.serveWeb(server.url);
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

/** Signs in, and gives what asks with the session's cookie as our own pages do. */
async function signedIn(login: string, at: TestServer = server) {
  const person = new Person(login);
  const arrived = await person.follow(`${server.url}/api/auth/login?return_to=/ui/`, { stop: `${server.url}/ui/` });
  expect(arrived.url).toBe(`${server.url}/ui/`);
  const cookie = person.cookies.get('ringfence-session') ?? '';
  return { person, cookie, ...asking(cookie, at) };
}

function asking(cookie: string, at: TestServer) {
  const headers = { cookie: `ringfence-session=${cookie}`, 'x-ringfence-csrf': '1', origin: server.url };
  const ask = (method: string, path: string, body?: unknown): Promise<Answered> =>
    at.nobody.ask(method, path, { body, headers });
  const me = async (): Promise<Json> => (await ask('GET', '/api/users/me')).json;
  const stream = (org: string): EventStream =>
    new EventStream(at.url, undefined, org, [{ kind: 'device' }], { headers });
  return { ask, me, stream, headers };
}

it('the server tells anybody how to sign in', async () => {
  expect((await server.nobody.get('/api/auth')).json).toEqual({
    token: true,
    provider: {
      name: new URL(provider.issuer).host,
      issuer: provider.issuer,
      browser: true,
      command_line: {
        client_id: 'tests',
        scopes: 'openid profile offline_access',
        parameters: { resource: audience },
      },
    },
  });
  const plain = await startTestServer(postgres);
  try {
    expect((await plain.nobody.get('/api/auth')).json).toEqual({ token: true });
    for (const path of ['/api/auth/login', '/api/auth/callback']) {
      expect((await plain.nobody.get(path)).status).toBe(404);
    }
    expect((await plain.nobody.post('/api/auth/logout')).status).toBe(401);
  } finally {
    await plain.close();
  }
});

it('a person signs in by browser, reads, writes and watches, and is the same as with an access token', async () => {
  const { person, ask, me, stream } = await signedIn('alice');
  const user = await me();
  expect(user).toMatchObject({ username: 'alice@example.org', scope: 'full', credential: { kind: 'session' } });
  const { accessToken } = await provider.signIn('alice');
  expect((await server.nobody.as(accessToken).get('/api/users/me')).json.id).toBe(user.id);
  const organization = await ask('POST', '/api/organizations', { name: 'by browser' });
  expect(organization.status).toBe(201);
  const events = stream(organization.json.id);
  try {
    await events.tail();
    await ask('POST', `/api/organizations/${organization.json.id}/devices`, { public_key: 'k' });
    await events.count(2);
  } finally {
    events.close();
  }
  const audit: Json[] = await server.admin.expect(200, 'GET', '/api/audit');
  const { id } = user.credential;
  expect(audit.find(({ credential }) => credential.id === id)).toMatchObject({ operation: 'signIn', user_id: user.id });
  // PKCE, state and nonce went along, and the code of the provider is in no log.
  const asked = new URL(person.visited.find((url) => url.startsWith(`${provider.issuer}/auth?`)) ?? '').searchParams;
  expect(asked.get('code_challenge_method')).toBe('S256');
  for (const name of ['state', 'nonce', 'code_challenge']) expect(asked.get(name)).toMatch(/^[\w-]{43}$/);
  const code = new URL(person.visited.find((url) => url.includes('/api/auth/callback')) ?? '').searchParams.get('code');
  expect(code).toBeTruthy();
  for (const secret of [code ?? '', person.cookies.get('ringfence-session') ?? ''])
    expect(server.logged()).not.toContain(secret);
});

it('cookies are out of reach for scripts and other sites, and over HTTPS bound to this host', async () => {
  const answer = await server.nobody.get('/api/auth/login?return_to=/ui/');
  const [plain = ''] = answer.headers['set-cookie'] ?? [];
  expect(plain).toMatch(/^ringfence-sign-in=[^;]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/);
  const secure = await startTestServer(postgres, { ...values(), publicUrl: 'https://ringfence.example' });
  try {
    const elsewhere = await secure.nobody.get('/api/auth/login');
    expect(elsewhere.headers.location).toBe('https://ringfence.example/api/auth/login?here=1');
    const [cookie = ''] = (await secure.nobody.get('/api/auth/login?here=1')).headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^__Host-ringfence-sign-in=[^;]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/);
    expect(isSafeUrl('http://ringfence.example')).toBe(false);
  } finally {
    await secure.close();
  }
});

it('nobody is sent to another place after signing in', async () => {
  const elsewhere = ['https://evil.example/', '//evil.example', '/ui/../../evil', '/ui/\\evil', '/api/docs'];
  for (const path of [...elsewhere, '/ui/%2e%2e/api/docs', '/ui/.%2E/api/docs']) {
    const person = new Person('alice');
    const query = new URLSearchParams({ return_to: path });
    const { url } = await person.follow(`${server.url}/api/auth/login?${query.toString()}`, {
      stop: `${server.url}/ui/`,
    });
    expect(url).toBe(`${server.url}/ui/`);
  }
});

/** As far as the provider's answer, which is not handed over. */
async function answerOf(login: string): Promise<{ readonly person: Person; readonly callback: URL }> {
  const person = new Person(login);
  const stop = `${server.url}/api/auth/callback`;
  const { url } = await person.follow(`${server.url}/api/auth/login`, { stop });
  return { person, callback: new URL(url) };
}

it('an answer with another state, in another browser, of another provider or without a code signs nobody in', async () => {
  const spoiled: readonly ((url: URL, person: Person) => void)[] = [
    (url) => url.searchParams.set('state', 'x'.repeat(43)),
    (url) => url.searchParams.append('state', 'x'),
    (url) => url.searchParams.delete('state'),
    (_url, person) => person.cookies.delete('ringfence-sign-in'),
    (_url, person) => {
      const ticket = person.cookies.get('ringfence-sign-in') ?? '';
      person.cookies.set('ringfence-sign-in', `${ticket.slice(0, -4)}AAAA`);
    },
    (url) => url.searchParams.set('iss', 'https://evil.example'),
    (url) => url.searchParams.delete('iss'),
    (url) => url.searchParams.delete('code'),
    (url) => url.searchParams.set('code', 'x'.repeat(43)),
  ];
  for (const spoil of spoiled) {
    const { person, callback } = await answerOf('mallory');
    spoil(callback, person);
    const answer = await person.go(callback.href);
    expect([400, 401]).toContain(answer.status);
    expect(await answer.text()).toContain('Not signed in');
    expect(person.cookies.has('ringfence-session')).toBe(false);
  }
});

it('a code is good once: replayed, even with its own ticket, it signs nobody in', async () => {
  const { person, callback } = await answerOf('alice');
  const ticket = person.cookies.get('ringfence-sign-in') ?? '';
  expect((await person.go(callback.href)).status).toBe(302);
  person.cookies.delete('ringfence-session');
  person.cookies.set('ringfence-sign-in', ticket);
  const again = await person.go(callback.href);
  expect([again.status, person.cookies.has('ringfence-session')]).toEqual([400, false]);
});

const ownTicket = (): Ticket =>
  newTicket('/ui/', { clock: () => now(), random: (bytes) => void randomFillSync(bytes) });

/** An answer of the provider as somebody without a credential makes it up. */
const invent = (at: TestServer, ticket = ownTicket(), address = '192.0.2.7'): Promise<Answered> =>
  at.nobody.get(
    `/api/auth/callback?${new URLSearchParams({ code: 'x', state: ticket.state, iss: provider.issuer }).toString()}`,
    {
      cookie: `ringfence-sign-in=${ticket.text}`,
      'x-forwarded-for': address,
    },
  );

describe('invented codes', () => {
  it('with one ticket reach the provider once, whichever servers they come to', async () => {
    const replica = await startTestServer(postgres, { ...values(), url: server.databaseUrl, publicUrl: server.url });
    const ticket = ownTicket();
    const before = provider.tokensAsked();
    try {
      const answers = await Promise.all([server, replica, server, replica].map((at) => invent(at, ticket)));
      for (let round = 0; round < 20; round += 1) answers.push(await invent(server, ticket));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([400]));
      expect(provider.tokensAsked() - before).toBe(1);
    } finally {
      await replica.close();
    }
  });

  it('with a ticket each count as failed credentials of their address; others there and elsewhere go on', async () => {
    const before = provider.tokensAsked();
    const session = await signedIn('neighbour');
    const strict = await startTestServer(postgres, {
      ...values(),
      url: server.databaseUrl,
      publicUrl: server.url,
      trustedProxy: ['127.0.0.1'],
      rateLimit: 1000,
      rateBurst: 1000,
      failedRateLimit: 1,
      failedRateBurst: 5,
    });
    const frozen = Date.now();
    now = () => frozen;
    try {
      const own = asking(session.cookie, strict);
      const there = { ...own.headers, 'x-forwarded-for': '192.0.2.7' };
      expect((await strict.nobody.get('/api/users/me', there)).status).toBe(200);
      const asked = provider.tokensAsked();
      const statuses: number[] = [];
      for (let round = 0; round < 12; round += 1) statuses.push((await invent(strict)).status);
      expect(statuses).toEqual([400, 400, 400, 400, 400, 429, 429, 429, 429, 429, 429, 429]);
      expect([asked - before, provider.tokensAsked() - asked]).toEqual([1, 5]);
      expect((await strict.nobody.get('/api/users/me', there)).status).toBe(200);
      expect((await invent(strict, ownTicket(), '192.0.2.8')).status).toBe(400);
    } finally {
      now = Date.now;
      await strict.close();
    }
  });

  it('are at the provider a few at a time, of one address and of all; who is turned away may reload', async () => {
    const busy = await startTestServer(postgres, {
      ...values(),
      url: server.databaseUrl,
      publicUrl: server.url,
      trustedProxy: ['127.0.0.1'],
    });
    const { person, callback } = await answerOf('patient');
    const waiting: Promise<unknown>[] = [];
    let answered = 0;
    const flood = (ip: string, times: number): void => {
      for (let n = 0; n < times; n += 1) waiting.push(invent(busy, ownTicket(), ip).then(() => (answered += 1)));
    };
    provider.holdTokens(true);
    try {
      flood('192.0.2.1', 8);
      await expect.poll(() => provider.holdTokens(true)).toBe(8);
      const cookie = `ringfence-sign-in=${person.cookies.get('ringfence-sign-in') ?? ''}`;
      const headers = { cookie, 'x-forwarded-for': '192.0.2.1' };
      const path = `${callback.pathname}${callback.search}`;
      const turnedAway = await busy.nobody.get(path, headers);
      expect([turnedAway.status, turnedAway.headers['set-cookie']]).toEqual([503, undefined]);
      for (let n = 2; n < 8; n += 1) flood(`192.0.2.${n}`, 8);
      await expect.poll(() => provider.holdTokens(true)).toBe(32);
      await expect.poll(() => answered).toBe(24);
      expect(provider.holdTokens(false)).toBe(32);
      await Promise.all(waiting);
      expect((await busy.nobody.get(path, headers)).status).toBe(302);
    } finally {
      provider.holdTokens(false);
      await Promise.allSettled(waiting);
      await busy.close();
    }
  });
});

it('a sign-in that takes too long has to be begun again; one that is cancelled says so', async () => {
  const { person, callback } = await answerOf('alice');
  now = () => Date.now() + 601_000;
  try {
    expect((await person.go(callback.href)).status).toBe(400);
  } finally {
    now = Date.now;
  }
  const other = await answerOf('alice');
  other.callback.searchParams.delete('code');
  other.callback.searchParams.set('error', 'access_denied');
  const answer = await other.person.go(other.callback.href);
  expect([answer.status, await answer.text()]).toEqual([401, expect.stringContaining('The sign-in was cancelled.')]);
});

it('a key rotation at the provider between two sign-ins is not noticed', async () => {
  await provider.rotate({ forget: true });
  expect((await (await signedIn('alice')).me()).username).toBe('alice@example.org');
});

it('while the provider is away people are told so, and sessions go on', async () => {
  const { me } = await signedIn('alice');
  const late = await startTestServer(postgres, { ...values(), url: server.databaseUrl, publicUrl: server.url });
  provider.unreachable(true);
  try {
    const answer = await late.nobody.get('/api/auth/login?here=1');
    expect([answer.status, answer.text]).toEqual([503, expect.stringContaining('cannot reach the identity provider')]);
    expect((await me()).username).toBe('alice@example.org');
  } finally {
    provider.unreachable(false);
    await late.close();
  }
});

it('a write by cookie is refused without our header, and from any other site', async () => {
  const { cookie, headers } = await signedIn('victim');
  const tries: readonly [string, Record<string, string>][] = [
    ['no header', { cookie: `ringfence-session=${cookie}` }],
    ['no header, own origin', { cookie: `ringfence-session=${cookie}`, origin: server.url }],
    ['another origin', { ...headers, origin: 'https://evil.example' }],
    ['no origin that could be named', { ...headers, origin: 'null' }],
    ['another site', { ...headers, 'sec-fetch-site': 'cross-site' }],
    ['a neighbour', { ...headers, 'sec-fetch-site': 'same-site' }],
  ];
  for (const [why, sent] of tries) {
    for (const path of ['/api/organizations', '/api/auth/logout', '/organizations']) {
      const answer = await server.nobody.ask('POST', path, { body: { name: 'forged' }, headers: sent });
      expect([answer.status, answer.json.code], `${why} ${path}`).toEqual([403, 'forbidden']);
    }
  }
  const own = { ...headers, 'sec-fetch-site': 'same-origin' };
  expect((await server.nobody.ask('POST', '/api/organizations', { body: { name: 'own' }, headers: own })).status).toBe(
    201,
  );
  // A cookie twice: one of them is planted.
  const twice = { ...headers, cookie: `ringfence-session=${cookie}; ringfence-session=${cookie}` };
  expect((await server.nobody.get('/api/users/me', twice)).status).toBe(401);
  // A header goes before the cookie.
  const both = { ...headers, authorization: 'Bearer nonsense' };
  expect((await server.nobody.get('/api/users/me', both)).status).toBe(401);
});

it('signing out ends the session and its streams on every server, and leads to the provider', async () => {
  const replica = await startTestServer(postgres, { ...values(), url: server.databaseUrl, publicUrl: server.url });
  const place = await newPlace(server);
  const { person, cookie, ask, me, stream } = await signedIn('leaver');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: (await me()).id });
  const there = asking(cookie, replica);
  expect((await there.me()).credential.kind).toBe('session');
  const streams = [stream(place.org), there.stream(place.org)];
  try {
    await Promise.all(streams.map((one) => one.tail()));
    const answer = await ask('POST', '/api/auth/logout');
    expect(answer.status).toBe(200);
    expect(answer.headers['set-cookie']).toEqual([expect.stringMatching(/^ringfence-session=; .*Max-Age=0/)]);
    await Promise.all(streams.map((one) => one.until('its end', ({ body }) => body.ended)));
    for (const { ask: again } of [{ ask }, there]) expect((await again('GET', '/api/users/me')).status).toBe(401);
    // The provider's own session ends there too, after a question, and the way leads back.
    const left = await person.follow(answer.json.provider_logout, {
      stop: `${server.url}/ui/`,
      answers: { logout: 'yes' },
    });
    expect(left.url).toBe(`${server.url}/ui/`);
  } finally {
    for (const one of streams) one.close();
    await replica.close();
  }
});

it('signing out everywhere ends all sessions of the user, and nobody else', async () => {
  const [first, second, other] = [await signedIn('many'), await signedIn('many'), await signedIn('other')];
  expect((await first.ask('POST', '/api/auth/logout?everywhere=true')).status).toBe(200);
  expect((await second.ask('GET', '/api/users/me')).status).toBe(401);
  expect((await other.ask('GET', '/api/users/me')).status).toBe(200);
});

it('signing in again in the same browser ends the session before', async () => {
  const { person, ask } = await signedIn('twice');
  await person.follow(`${server.url}/api/auth/login`, { stop: `${server.url}/ui/` });
  expect((await ask('GET', '/api/users/me')).status).toBe(401);
});

it('a removed user is out at once, streams included, and does not come back by browser', async () => {
  const place = await newPlace(server);
  const { person, ask, me, stream } = await signedIn('dismissed');
  const { id } = await me();
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: id });
  const events = stream(place.org);
  try {
    await events.tail();
    await server.admin.expect(200, 'DELETE', `/api/users/${id}`);
    await events.until('its end', ({ body }) => body.ended);
    expect((await ask('GET', '/api/users/me')).status).toBe(401);
    const back = await person.follow(`${server.url}/api/auth/login`);
    expect([back.status, back.text]).toEqual([403, expect.stringContaining('This user was removed')]);
  } finally {
    events.close();
  }
});

async function database<Row extends object>(text: string, given: readonly string[] = []): Promise<Row[]> {
  const client = new Client({ connectionString: server.databaseUrl });
  await client.connect();
  try {
    return (await client.query<Row>(text, [...given])).rows;
  } finally {
    await client.end();
  }
}

/** Waits until it is written down that this person's session was used after that moment. */
async function seen(login: string, since: number): Promise<void> {
  const query = `SELECT max(s.seen_at) > $2 AS seen FROM sessions s JOIN users u ON u.id = s.user_id WHERE u.subject = $1`;
  const given = [login, new Date(since).toISOString()];
  await expect.poll(async () => (await database<{ seen: boolean }>(query, given))[0]?.seen).toBe(true);
}

it('a session ends when it is not used, and at the latest after its lifetime, its streams too', async () => {
  const { ask } = await signedIn('sleeper');
  const place = await newPlace(server);
  const { me, stream, ask: askAgain } = await signedIn('worker');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: (await me()).id });
  let events: EventStream | undefined;
  try {
    // Used in time, again and again, one session lives on while the other falls asleep.
    for (let used = 0; used < sessionLifetime - sessionIdle; used += sessionIdle / 2) {
      now = () => Date.now() + used * 1000;
      expect((await askAgain('GET', '/api/users/me')).status).toBe(200);
      await seen('worker', now() - 60_000);
    }
    expect((await ask('GET', '/api/users/me')).status).toBe(401);
    now = () => Date.now() + (sessionLifetime - 4) * 1000;
    events = stream(place.org);
    await events.until('an answer', ({ status }) => status > 0);
    now = () => Date.now() + (sessionLifetime + 1) * 1000;
    if (events.status === 200) await events.until('its end', ({ body }) => body.ended);
    expect((await askAgain('GET', '/api/users/me')).status).toBe(401);
  } finally {
    events?.close();
    now = Date.now;
  }
});

it('a session is held to the provider: refreshed while it vouches, ended with its streams when it does not', async () => {
  const place = await newPlace(server);
  const { ask, me, stream } = await signedIn('vouched');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: (await me()).id });
  try {
    let at = 0;
    const later = (): void => {
      at += sessionCheck + 5;
      now = () => Date.now() + at * 1000;
    };
    // Several checks, so that a refresh token which the first one brought is used by the next.
    const sealed = async (): Promise<string> => {
      const query = `SELECT s.sealed::text FROM sessions s JOIN users u ON u.id = s.user_id WHERE u.subject = 'vouched'`;
      return (await database<{ sealed: string }>(query))[0]?.sealed ?? 'gone';
    };
    for (let round = 0; round < 3; round += 1) {
      const before = await sealed();
      later();
      for (let asked = 0; asked < 5; asked += 1) expect((await ask('GET', '/api/users/me')).status).toBe(200);
      await expect.poll(sealed).not.toBe(before);
    }
    expect(await sealed()).not.toBe('gone');
    const events = stream(place.org);
    try {
      await events.tail();
      provider.disown('vouched');
      later();
      await ask('GET', '/api/users/me');
      await events.until('its end', ({ body }) => body.ended);
      expect((await ask('GET', '/api/users/me')).status).toBe(401);
    } finally {
      events.close();
    }
  } finally {
    now = Date.now;
  }
});

it('a session belongs to the provider and the client that vouched for it: another one ends it at its start, and never sees its tokens', async () => {
  const place = await newPlace(server);
  const first = await signedIn('moved');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: (await first.me()).id });
  const events = first.stream(place.org);
  const shared = { ...values(), url: server.databaseUrl, publicUrl: server.url };
  const other = await startProvider();
  other.serveWeb(server.url);
  try {
    await events.tail();
    for (const changed of [{ oidcIssuer: [other.issuer] }, { oidcClientId: 'another client' }]) {
      const kept = await signedIn('moved');
      const replacing = await startTestServer(postgres, { ...shared, ...changed });
      try {
        // What was there at the start ends everywhere, streams included.
        expect((await asking(kept.cookie, replacing).ask('GET', '/api/users/me')).status).toBe(401);
        expect((await kept.ask('GET', '/api/users/me')).status).toBe(401);
        await events.until('its end', ({ body }) => body.ended);
        // What a server of the old settings begins afterwards is nothing to this one, also when it is time to ask the provider.
        const late = await signedIn('moved');
        const [asked, askedFirst] = [other.tokensAsked(), provider.tokensAsked()];
        now = () => Date.now() + (sessionCheck + 5) * 1000;
        expect((await asking(late.cookie, replacing).ask('GET', '/api/users/me')).status).toBe(401);
        expect((await asking(late.cookie, replacing).ask('POST', '/api/auth/logout')).status).toBe(401);
        expect([other.tokensAsked(), provider.tokensAsked()]).toEqual([asked, askedFirst]);
        now = Date.now;
        expect((await late.ask('GET', '/api/users/me')).status).toBe(200);
      } finally {
        now = Date.now;
        await replacing.close();
      }
    }
    // The same settings again: nothing ends.
    const stays = await signedIn('moved');
    await (await startTestServer(postgres, shared)).close();
    expect((await stays.ask('GET', '/api/users/me')).status).toBe(200);
  } finally {
    events.close();
    await other.stop();
  }
});

it('what the database keeps of a session opens nothing, and shows no token of the provider', async () => {
  const { cookie } = await signedIn('kept');
  const rows = await database<{ digest: string; row: string }>(
    `SELECT encode(digest, 'hex') AS digest, s::text AS row FROM sessions s`,
  );
  const dump = JSON.stringify(rows);
  expect(dump).not.toContain(cookie);
  expect(dump).not.toContain(Buffer.from(cookie).toString('hex'));
  // `eyJ` and what follows it in a token: three bytes alone are among random ones now and then.
  expect(dump).not.toMatch(/65794a(?:[2-7][\da-f]){12}/);
  expect(rows.length).toBeGreaterThan(0);
  for (const { digest } of rows) {
    const value = Buffer.from(digest, 'hex').toString('base64url');
    for (const text of [digest, value, `rf_session_${value}`]) {
      const headers = { cookie: `ringfence-session=${text}` };
      expect((await server.nobody.get('/api/users/me', headers)).status).toBe(401);
    }
  }
});
