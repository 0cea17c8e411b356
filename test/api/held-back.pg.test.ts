/** What somebody could gain by holding back a body, a write or an answer until the right to it has ended (reference 5 (15)). */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { Hub } from '../../src/server/watch/hub.ts';
import { eventually } from '../lib/eventually.ts';
import {
  newPerson,
  newPlace,
  startPostgres,
  startTestServer,
  type Person,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';
import { Held, watchGuards } from './held-request.ts';

let postgres: TestPostgres;
let server: TestServer;
let guards: { restore: () => void };
beforeAll(async () => {
  postgres = await startPostgres();
  server = await startTestServer(postgres);
  guards = watchGuards();
});
afterAll(async () => {
  guards?.restore();
  await server?.close();
  await postgres?.stop();
});

interface Attack {
  readonly place: Place;
  /** Owner beside the one of the place, until it is demoted. */
  readonly mallory: Person;
}

async function newAttack(): Promise<Attack> {
  const place = await newPlace(server);
  const mallory = await newPerson(server, 'mallory');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: mallory.id });
  await place.owner.api.expect(200, 'PATCH', `${place.base}/members/${mallory.id}`, { role: 'owner' });
  return { place, mallory };
}

const hold = (token: string, method: string, path: string, body?: unknown): Held =>
  new Held(server.url, { method, path, body, headers: { authorization: `Bearer ${token}` } });

test.each<[string, (attack: Attack) => readonly [string, string, unknown]]>([
  ['promote itself', ({ place, mallory }) => ['PATCH', `${place.base}/members/${mallory.id}`, { role: 'owner' }]],
  [
    'make a guardrail',
    ({ place }) => [
      'POST',
      `${place.base}/security_groups`,
      {
        group_name: 'no ssh',
        guardrail: 'forbid',
        applies_to: [{ all_devices: true }],
        inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22 }],
      },
    ],
  ],
  ['rename the organization', ({ place }) => ['PATCH', place.base, { name: 'mine' }]],
  ['make an enrollment key with labels', ({ place }) => ['POST', `${place.base}/enrollment_keys`, { labels: ['db'] }]],
  ['add an accomplice', ({ place }) => ['POST', `${place.base}/members`, { user_id: place.stranger.id }]],
  [
    'register a device for another member',
    ({ place }) => ['POST', `${place.base}/devices`, { public_key: 'k', user_id: place.member.id }],
  ],
])('a demoted owner cannot %s by a body that it held back', async (_, attackOf) => {
  const attack = await newAttack();
  const { place, mallory } = attack;
  const request = hold(mallory.token, ...attackOf(attack));
  await request.admitted;
  await place.owner.api.expect(200, 'PATCH', `${place.base}/members/${mallory.id}`, { role: 'member' });
  const { revision } = await place.owner.api.expect(200, 'GET', place.base);
  request.release();
  expect((await request.answer).status).toBe(403);
  expect(await place.owner.api.expect(200, 'GET', place.base)).toMatchObject({ name: 'acme', revision });
  expect(await place.owner.api.expect(200, 'GET', `${place.base}/enrollment_keys`)).toEqual([]);
  expect(await place.owner.api.expect(200, 'GET', `${place.base}/members`)).toHaveLength(3);
});

test('a demoted owner reads nothing by a body that it held back, and gets no answer of before again', async () => {
  const { place, mallory } = await newAttack();
  const { api } = place.owner;
  const made = await api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  const body = { group_name: 'web' };
  const groups = `${place.base}/security_groups`;
  const headers = { authorization: `Bearer ${mallory.token}`, 'idempotency-key': 'once' };
  const first = new Held(server.url, { method: 'POST', path: groups, body, headers });
  first.release();
  expect((await first.answer).status).toBe(201);
  const demoted = [
    hold(mallory.token, 'POST', `${place.base}/propose`, { device_ids: [made.id] }),
    new Held(server.url, { method: 'POST', path: groups, body, headers }),
  ];
  await Promise.all(demoted.map(({ admitted }) => admitted));
  await api.expect(200, 'PATCH', `${place.base}/members/${mallory.id}`, { role: 'member' });
  for (const request of demoted) request.release();
  for (const request of demoted) expect((await request.answer).status).toBe(403);
  const removed = [
    hold(mallory.token, 'POST', `${place.base}/simulate`, {}),
    hold(mallory.token, 'POST', `${place.base}/events`, [{ kind: 'device' }]),
  ];
  await Promise.all(removed.map(({ admitted }) => admitted));
  await api.expect(200, 'DELETE', `${place.base}/members/${mallory.id}`);
  for (const request of removed) request.release();
  for (const request of removed) expect((await request.answer).status).toBe(404);
});

test('a revoked token mints no token, and a revoked token of an administrator none for an administrator', async () => {
  const person = await newPerson(server);
  const { id: admin } = await server.admin.expect(200, 'GET', '/api/users/me');
  const mine = await person.api.expect(201, 'POST', '/api/users/me/tokens', {});
  const admins = await server.admin.expect(201, 'POST', '/api/users/me/tokens', {});
  const before: unknown[] = await server.admin.expect(200, 'GET', '/api/users/me/tokens');
  const requests = [
    hold(mine.token, 'POST', '/api/users/me/tokens', { name: 'mine' }),
    hold(admins.token, 'POST', `/api/users/${admin}/tokens`, { name: 'mine' }),
    hold(admins.token, 'POST', '/api/users', { username: 'accomplice' }),
  ];
  await Promise.all(requests.map(({ admitted }) => admitted));
  await server.admin.expect(200, 'DELETE', `/api/tokens/${mine.id}`);
  await server.admin.expect(200, 'DELETE', `/api/tokens/${admins.id}`);
  for (const request of requests) request.release();
  for (const request of requests) expect((await request.answer).status).toBe(401);
  expect(await server.admin.expect(200, 'GET', '/api/users/me/tokens')).toHaveLength(before.length - 1);
});

test('the old secret of a rotated token writes nothing more, though the token keeps its id', async () => {
  const { owner, base } = await newPlace(server);
  const { id, token } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', {});
  const request = hold(token, 'POST', `${base}/devices`, { public_key: 'k' });
  await request.admitted;
  await owner.api.expect(200, 'POST', `/api/tokens/${id}/rotate`);
  request.release();
  expect((await request.answer).status).toBe(401);
  expect(await owner.api.expect(200, 'GET', `${base}/devices`)).toEqual([]);
});

test('the end of a token is answered after the last write by it, not before', async () => {
  const { owner, base, org } = await newPlace(server);
  const { id, token } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', {});
  const [database, watcher] = [0, 1].map(() => new Client({ connectionString: server.databaseUrl }));
  if (database === undefined || watcher === undefined) throw new Error('two were made');
  await Promise.all([database.connect(), watcher.connect()]);
  try {
    await database.query('BEGIN');
    await database.query('SELECT FROM heads WHERE org_id = $1 FOR UPDATE', [org]);
    const locked = await database.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const areWaiting = (count: number) => async (): Promise<boolean> => {
      const text =
        'WITH RECURSIVE behind AS (SELECT $1::integer AS pid UNION SELECT a.pid FROM pg_stat_activity a, behind b WHERE b.pid = ANY (pg_blocking_pids(a.pid))) SELECT FROM behind';
      return ((await watcher.query(text, [locked.rows[0]?.pid])).rowCount ?? 0) > count;
    };
    const ends: string[] = [];
    const request = hold(token, 'POST', `${base}/devices`, { public_key: 'k' });
    request.release();
    const written = request.answer.then(({ status }) => ends.push(`written ${status}`));
    await eventually('the write waits for the organization', areWaiting(1));
    const revoked = server.admin.expect(200, 'DELETE', `/api/tokens/${id}`).then(() => ends.push('revoked'));
    await eventually('the end of the token waits for the write', areWaiting(2));
    expect(ends).toEqual([]);
    await database.query('COMMIT');
    await Promise.all([written, revoked]);
    const devices: unknown[] = await owner.api.expect(200, 'GET', `${base}/devices`);
    // Whichever came first: what was answered is what happened.
    expect([...ends].toSorted()).toEqual(['revoked', devices.length === 1 ? 'written 201' : 'written 401']);
    expect((await server.nobody.as(token).post(`${base}/devices`, { public_key: 'l' })).status).toBe(401);
  } finally {
    await Promise.all([database.end(), watcher.end()]);
  }
});

test.each<[string, number, (place: Place, id: string) => Promise<unknown>]>([
  ['its token is revoked', 401, (_, id) => server.admin.expect(200, 'DELETE', `/api/tokens/${id}`)],
  [
    'the member is removed',
    404,
    ({ owner, member, base }) => owner.api.expect(200, 'DELETE', `${base}/members/${member.id}`),
  ],
  ['the organization is deleted', 404, ({ owner, base }) => owner.api.expect(200, 'DELETE', base)],
])('a wait for convergence ends when %s', async (_, status, end) => {
  const place = await newPlace(server);
  const { id, token } = await place.member.api.expect(201, 'POST', '/api/users/me/tokens', {});
  // A device that never reports: without the end the answer would come in two minutes.
  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  const request = hold(token, 'GET', `${place.base}/convergence?wait=120`);
  await request.admitted;
  request.release();
  await end(place, id);
  expect((await request.answer).status).toBe(status);
});

test('a device that waits for an answer is heard once, however often the server judges its right', async () => {
  const { owner, base } = await newPlace(server);
  const { id, device_token } = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'k' });
  const heard = vi.spyOn(Hub.prototype, 'heard');
  onTestFinished(() => heard.mockRestore());
  // The device reports nothing, so the answer comes at the end of the wait, and the right is judged at its start and at its end.
  await server.nobody.as(device_token).expect(200, 'GET', `${base}/convergence?wait=1`);
  expect(heard.mock.calls.filter(([device]) => device === id)).toHaveLength(1);
});
