/** Proves receipts in the database: each is stored, reads return only new ones, and a slow transaction hides none. */
import { asServer } from '../data/actor.ts';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { device, makeWorld, problemOf } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

async function setUp(count: number) {
  const world = await makeWorld(postgres);
  const { store, org, owner } = world;
  const devices = await Promise.all(
    Array.from(
      { length: count },
      async () => (await store.devices.create(org, owner, device(owner.user_id))).record.id,
    ),
  );
  return { ...world, devices };
}

test('reports that come together are all kept, the last word of each device, and nothing of one that is not there', async () => {
  const { store, org, owner, devices } = await setUp(50);
  const [gone] = devices;
  if (gone === undefined) throw new Error('no device');
  await store.devices.delete(org, owner, gone);
  const reports = devices.map((id, index) =>
    store.receipts.report(org, id, { state: 'applied', revision: index }, asServer),
  );
  expect(await problemOf(reports[0] ?? Promise.resolve())).toEqual({ code: 'not_found', what: 'device' });
  await Promise.all(reports.slice(1));
  await store.receipts.report(org, devices[1] ?? gone, { state: 'failed' }, asServer);
  const { statuses } = await store.receipts.since(org);
  expect(statuses).toHaveLength(49);
  expect(statuses.find(({ device_id }) => device_id === devices[1])?.status).toEqual({ state: 'failed' });
});

test('only what is new is read again, and a report is not missed because another transaction was still under way', async () => {
  const { store, org, url, devices } = await setUp(3);
  const [a, b, c] = devices;
  if (a === undefined || b === undefined || c === undefined) throw new Error('no devices');
  await store.receipts.report(org, a, { state: 'applied' }, asServer);
  const first = await store.receipts.since(org);
  expect(first.statuses.map(({ device_id }) => device_id)).toEqual([a]);
  // A report of another server that has been written and is not committed yet.
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  await client.query(
    `INSERT INTO device_status (org_id, device_id, status, reported_at, transaction_id) VALUES ($1, $2, '{}', now(), pg_current_xact_id())`,
    [org, b],
  );
  await store.receipts.report(org, c, { state: 'applied' }, asServer);
  const second = await store.receipts.since(org, first.through);
  expect(second.statuses.map(({ device_id }) => device_id)).toContain(c);
  await client.query('COMMIT');
  const third = await store.receipts.since(org, second.through);
  expect(third.statuses.map(({ device_id }) => device_id)).toContain(b);
  // Transactions of others in the same PostgreSQL may hold the mark back for a while.
  let { through } = third;
  const news = async (): Promise<number> => {
    const answer = await store.receipts.since(org, through);
    ({ through } = answer);
    return answer.statuses.length;
  };
  await expect.poll(news).toBe(0);
});

test('a fleet is read in parts, each device once, also those that report meanwhile', async () => {
  const { store, org, devices } = await setUp(600);
  await Promise.all(devices.map((id) => store.receipts.report(org, id, { state: 'applied' }, asServer)));
  const first = await store.receipts.since(org);
  expect(first.statuses.length).toBeLessThan(600);
  const again = devices.find((id) => !first.statuses.some(({ device_id }) => device_id === id));
  if (again === undefined) throw new Error('all of them came at once');
  await store.receipts.report(org, again, { state: 'failed' }, asServer);
  const found = [...first.statuses];
  for (let { next } = first; next !== undefined;) {
    const part = await store.receipts.since(org, undefined, next);
    found.push(...part.statuses);
    ({ next } = part);
  }
  expect(new Set(found.map(({ device_id }) => device_id))).toEqual(new Set(devices));
  expect(found.findLast(({ device_id }) => device_id === again)?.status).toEqual({ state: 'failed' });
});

test('packets beyond what numbers hold end at the largest, and fail no other organization with whom they are written', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const { id: honest } = await store.organizations.create(owner.user_id, { name: 'honest', description: '' }, asServer);
  const lie = { org, admitted: 1e300, refused: Number.MAX_SAFE_INTEGER };
  for (let round = 0; round < 3; round += 1) {
    await store.samples.add([lie, { org: honest, admitted: 5, refused: 1 }]);
  }
  const read = async (of: typeof org) => {
    const samples = await store.samples.read(of, { since: 0, seconds: 86_400 });
    return samples.map(({ admitted, refused }) => ({ admitted, refused }));
  };
  const most = Number.MAX_SAFE_INTEGER;
  expect(await read(org)).toEqual([{ admitted: most, refused: most }]);
  const sum = (await read(honest)).reduce((total, { admitted }) => total + admitted, 0);
  expect(sum).toBe(15);
});
