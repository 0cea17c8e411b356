/** Proves presence in the database: told by processes, read across them, outliving each. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { device, makeWorld, query } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

async function setUp() {
  const world = await makeWorld(postgres);
  const { store, org, owner } = world;
  const create = async () => (await store.devices.create(org, owner, device(owner.user_id))).record.id;
  const [one, two] = [await create(), await create()];
  const silence = (seconds: number) =>
    query(
      world.url,
      `UPDATE stream_processes SET seen_at = seen_at - interval '${seconds} seconds';
       UPDATE device_presence SET last_seen_at = last_seen_at - interval '${seconds} seconds'`,
    );
  const onlineOf = async (id: typeof one) => (await store.presence.read(org)).get(id)?.online;
  return { ...world, one, two, silence, onlineOf };
}

test('a device is online while any process holds a stream of it, and for twenty seconds after', async () => {
  const { store, org, one, two, silence, onlineOf } = await setUp();
  const [a, b] = [randomUUID(), randomUUID()];
  expect(await store.presence.record(a, [{ device_id: one, connected: true }])).toBe(true);
  expect(await store.presence.record(b, [{ device_id: one, connected: true }])).toBe(true);
  expect([await onlineOf(one), await onlineOf(two)]).toEqual([true, undefined]);
  await store.presence.record(a, [{ device_id: one, connected: false }]);
  await silence(30);
  // One process still lives and says so; nothing is said of its devices.
  expect(await store.presence.record(b, [])).toBe(false);
  expect(await onlineOf(one)).toBe(true);
  await store.presence.record(b, [{ device_id: one, connected: false }]);
  expect(await onlineOf(one)).toBe(true);
  await silence(21);
  const seen = (await store.presence.read(org)).get(one);
  expect(seen?.online).toBe(false);
  expect(Date.now() - Date.parse(seen?.last_seen_at ?? '')).toBeGreaterThan(20_000);
});

test('the devices of a process that died are offline after twenty seconds, and remembered when it is forgotten', async () => {
  const { store, org, url, one, silence, onlineOf } = await setUp();
  const dead = randomUUID();
  await store.presence.record(dead, [{ device_id: one, connected: true }]);
  await silence(25);
  expect(await onlineOf(one)).toBe(false);
  await silence(60);
  const before = (await store.presence.read(org)).get(one);
  await store.presence.forget();
  expect(await query(url, 'SELECT 1 FROM stream_processes')).toEqual([]);
  expect((await store.presence.read(org)).get(one)).toEqual(before);
  // It was only frozen: it is told that nobody knew it any more.
  expect(await store.presence.record(dead, [])).toBe(true);
  await store.presence.record(dead, [{ device_id: one, connected: true }]);
  expect(await onlineOf(one)).toBe(true);
  await silence(100);
  await store.presence.forget();
  expect(await query(url, 'SELECT process_id FROM device_presence')).toEqual([
    { process_id: '00000000-0000-0000-0000-000000000000' },
  ]);
});

test('a device that was deleted meanwhile is passed over, and takes its presence along', async () => {
  const { store, org, owner, url, one, two } = await setUp();
  await store.presence.record(randomUUID(), [{ device_id: one, connected: true }]);
  await store.devices.delete(org, owner, one);
  expect(await query(url, 'SELECT 1 FROM device_presence')).toEqual([]);
  const process = randomUUID();
  await store.presence.record(process, [
    { device_id: one, connected: false },
    { device_id: two, connected: true },
  ]);
  expect([...(await store.presence.read(org)).keys()]).toEqual([two]);
});
