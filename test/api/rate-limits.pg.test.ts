/** Proves how often whom (reference 8): by credential and by user, by address for strangers, and far fewer failed credentials. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Answered, Api } from '../lib/http.ts';
import {
  newPerson,
  startPostgres,
  startTestServer,
  type Person,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';
import { Held, watchGuards } from './held-request.ts';

let postgres: TestPostgres;
let server: TestServer;
let now = 1_900_000_000_000;
beforeAll(async () => {
  postgres = await startPostgres();
  server = await startTestServer(postgres, {
    clock: () => now,
    rateLimit: 100,
    rateBurst: 40,
    addressRateLimit: 5,
    addressRateBurst: 20,
    trustedProxy: ['127.0.0.1'],
  });
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
});
/** Every bucket is full again. */
beforeEach(() => {
  now += 3_600_000;
});

const times = async (count: number, ask: (index: number) => Promise<Answered>): Promise<number[]> => {
  const statuses: number[] = [];
  for (let index = 0; index < count; index += 1) statuses.push((await ask(index)).status);
  return statuses;
};
const count = (statuses: readonly number[], status: number): number => statuses.filter((one) => one === status).length;
const wrong = (index: number): Api => server.nobody.as(`rf_user_${String(index).padStart(43, 'x')}`);
const from = (address: string) => ({ 'x-forwarded-for': address });

test('after 50 failed credentials an address gets 429 with Retry-After, then ten a second', async () => {
  const first = await times(60, (index) => wrong(index).get('/api/users/me', from('192.0.2.1')));
  expect(first).toEqual([...Array<number>(50).fill(401), ...Array<number>(10).fill(429)]);
  const refused = await wrong(99).get('/api/users/me', from('192.0.2.1'));
  expect(refused.json.code).toBe('rate_limited');
  expect(refused.headers['retry-after']).toBe('1');
  now += 1000;
  const later = await times(15, (index) => wrong(100 + index).get('/api/users/me', from('192.0.2.1')));
  expect([count(later, 401), count(later, 429)]).toEqual([10, 5]);
  expect((await wrong(1).get('/api/users/me', from('192.0.2.2'))).status).toBe(401);
});

test('a good credential that is in use goes on while another at its address guesses', async () => {
  const person = await newPerson(server);
  expect((await person.api.get('/api/users/me', from('192.0.2.3'))).status).toBe(200);
  expect(count(await times(60, (index) => wrong(index).get('/api/users/me', from('192.0.2.3'))), 429)).toBe(10);
  expect((await person.api.get('/api/users/me', from('192.0.2.3'))).status).toBe(200);
  // One that was never seen there waits with the guesses, and goes on from elsewhere.
  const other = await newPerson(server);
  expect((await other.api.get('/api/users/me', from('192.0.2.3'))).status).toBe(429);
  expect((await other.api.get('/api/users/me', from('192.0.2.4'))).status).toBe(200);
});

test('tokens that a user mints share one limit, twice that of one token; a device has its own', async () => {
  const person = await newPerson(server);
  const minted = await Promise.all(
    Array.from({ length: 10 }, async () => (await person.api.expect(201, 'POST', '/api/users/me/tokens', {})).token),
  );
  const { id: org } = await person.api.expect(201, 'POST', '/api/organizations', { name: 'x' });
  const { device_token } = await person.api.expect(201, 'POST', `/api/organizations/${org}/devices`, {
    public_key: 'k',
  });
  now += 3_600_000;
  expect(count(await times(50, () => person.api.get('/api/users/me')), 200)).toBe(40);
  now += 3_600_000;
  const answers = await times(200, (index) => server.nobody.as(minted[index % 10]).get('/api/users/me'));
  expect([count(answers, 200), count(answers, 429)]).toEqual([80, 120]);
  expect((await server.nobody.as(device_token).get('/api/users/me')).status).toBe(200);
});

test('a request that is judged again, because its body or its answer comes later, counts once', async () => {
  const person = await newPerson(server);
  const { id: org } = await person.api.expect(201, 'POST', '/api/organizations', { name: 'x' });
  const base = `/api/organizations/${org}`;
  const guards = watchGuards();
  try {
    now += 3_600_000;
    await person.api.expect(200, 'GET', `${base}/convergence?wait=1`);
    expect(count(await times(38, () => person.api.get('/api/users/me')), 200)).toBe(38);
    const headers = { authorization: `Bearer ${person.token}` };
    const late = new Held(server.url, { method: 'POST', path: `${base}/simulate`, body: {}, headers });
    await late.admitted;
    late.release();
    expect((await late.answer).status).toBe(200);
    expect((await person.api.get('/api/users/me')).status).toBe(429);
  } finally {
    guards.restore();
  }
});

test.each([
  ['/metrics', 200],
  ['/readyz', 200],
  ['/healthz', 200],
  ['/api/openapi.json', 200],
  ['/api/docs', 200],
  ['/', 302],
  ['/nope', 404],
  ['/api/auth', 200],
  ['/api/users/me', 401],
])('%s is counted by address for those without a credential', async (path, status) => {
  const answers = await times(25, () => server.nobody.get(path, from('198.51.100.1')));
  expect(answers).toEqual([...Array<number>(20).fill(status), ...Array<number>(5).fill(429)]);
  expect((await server.nobody.get(path, from('198.51.100.2'))).status).toBe(status);
});

test('an address is an IPv6 /64, as the trusted proxy saw it, whatever a client writes before', async () => {
  const ask = (address: string) => server.nobody.get('/nope', from(address));
  const inOne = (index: number): string => `2001:db8:0:7:${index.toString(16)}::${index}`;
  expect(count(await times(25, (index) => ask(inOne(index))), 429)).toBe(5);
  expect((await ask('2001:db8:0:8::1')).status).toBe(404);
  expect((await ask('203.0.113.9, 2001:db8:0:7::99')).status).toBe(429);
  expect(count(await times(25, (index) => ask(`10.9.8.${index}, 203.0.113.5`)), 429)).toBe(5);
  expect((await ask('::ffff:203.0.113.5')).status).toBe(429);
});

test('whoever adds members by names that nobody has is refused after 50, before the name is looked up; others, and names that exist, are not concerned', async () => {
  const [guesser, honest, known] = [await newPerson(server), await newPerson(server), await newPerson(server)];
  const organizationOf = async ({ api }: Person): Promise<string> => {
    now += 60_000;
    return (await api.expect(201, 'POST', '/api/organizations', { name: 'x' })).id;
  };
  const [first, second, other] = [
    await organizationOf(guesser),
    await organizationOf(guesser),
    await organizationOf(honest),
  ];
  const add = ({ api }: Person, org: string, body: object): Promise<Answered> => {
    now += 100;
    return api.ask('POST', `/api/organizations/${org}/members`, { body });
  };
  await add(honest, other, { user_id: known.id });
  const statuses = await times(70, (index) =>
    add(guesser, index % 2 === 0 ? first : second, { username: `nobody-${index}` }),
  );
  // Seven seconds have passed.
  expect([statuses.slice(0, 50), count(statuses, 429)]).toEqual([Array(50).fill(422), 20]);
  const refused = await add(guesser, first, { username: known.username });
  expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited']);
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  expect((await add(honest, other, { username: 'nobody' })).status).toBe(422);
  now += 10_000;
  expect((await add(guesser, first, { username: known.username })).status).toBe(201);
});
