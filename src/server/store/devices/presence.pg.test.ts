/** Proves presence in the database: processes record it, other processes read it, and it survives each of them. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import type { DeviceId } from '../../../policy/ids.ts';
import type { PresenceChange } from './presence.ts';
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
  /** Time passes without a word of any process. */
  const pass = (seconds: number) =>
    query(
      world.url,
      `UPDATE stream_processes SET seen_at = seen_at - interval '${seconds} seconds', heard_at = heard_at - interval '${seconds} seconds';
       UPDATE device_presence SET last_seen_at = last_seen_at - interval '${seconds} seconds', left_at = left_at - interval '${seconds} seconds'`,
    );
  const seenOf = async (id: DeviceId) => (await store.presence.read(org)).get(id);
  const onlineOf = async (id: DeviceId) => (await seenOf(id))?.online;
  /** When the last record was made, however long the machine took for it. */
  let recorded = { from: 0, to: 0 };
  const record = async (...asked: Parameters<typeof world.store.presence.record>): Promise<boolean> => {
    const from = Date.now();
    const isNews = await world.store.presence.record(...asked);
    recorded = { from, to: Date.now() };
    return isNews;
  };
  /** Whether the device was seen so many seconds before the last record. */
  const wasSeenBefore = async (id: DeviceId, seconds: number): Promise<boolean> => {
    const at = Date.parse((await seenOf(id))?.last_seen_at ?? '') + seconds * 1_000;
    return recorded.from <= at && at <= recorded.to;
  };
  return { ...world, one, two, pass, record, seenOf, onlineOf, wasSeenBefore };
}

const connected = (device_id: DeviceId, more: Partial<PresenceChange> = {}): PresenceChange => ({
  device_id,
  connected: true,
  twoWay: true,
  silenceMs: 45_000,
  heardAgoMs: 0,
  ...more,
});
const left = (device_id: DeviceId, more: Partial<PresenceChange> = {}): PresenceChange =>
  connected(device_id, { connected: false, twoWay: false, leftAgoMs: 0, ...more });

test('a device is online while any process holds a stream of it, and for twenty seconds after', async () => {
  const { one, two, pass, record, onlineOf, wasSeenBefore } = await setUp();
  const [a, b] = [randomUUID(), randomUUID()];
  expect(await record(a, 0, [connected(one)])).toBe(true);
  expect(await record(b, 0, [connected(one)])).toBe(true);
  expect([await onlineOf(one), await onlineOf(two)]).toEqual([true, undefined]);
  await record(a, 0, [left(one)]);
  await pass(30);
  // One process still lives and says so; nothing is said of its devices but that all were heard.
  expect(await record(b, 5_000, [])).toBe(false);
  expect(await onlineOf(one)).toBe(true);
  expect(await wasSeenBefore(one, 5)).toBe(true);
  await record(b, 0, [left(one, { heardAgoMs: 5_000 })]);
  expect(await onlineOf(one)).toBe(true);
  await pass(21);
  expect(await onlineOf(one)).toBe(false);
  expect(await wasSeenBefore(one, 26)).toBe(true);
});

test('a device that fell silent is offline at once, and was last seen when it was last heard', async () => {
  const { one, two, pass, record, seenOf, onlineOf, wasSeenBefore } = await setUp();
  const process = randomUUID();
  await record(process, 0, [connected(one), connected(two)]);
  await pass(45);
  const { leftAgoMs: _, ...silent } = left(one, { heardAgoMs: 45_000 });
  await record(process, 3_000, [silent]);
  expect([await onlineOf(one), await onlineOf(two)]).toEqual([false, true]);
  expect(await wasSeenBefore(one, 45)).toBe(true);
  expect(await wasSeenBefore(two, 3)).toBe(true);
  // The process lives on and hears others: the silent one stays as it was.
  await pass(10);
  expect(await wasSeenBefore(one, 55)).toBe(true);
  const seen = await seenOf(one);
  await record(process, 1_000, []);
  expect(await seenOf(one)).toEqual(seen);
  expect(await wasSeenBefore(two, 1)).toBe(true);
});

test('a stream without signs counts while the device shows itself otherwise, on whichever server, and no longer', async () => {
  const { one, pass, record, onlineOf, seenOf } = await setUp();
  const [holder, other] = [randomUUID(), randomUUID()];
  const shows = (process: string, heardAgoMs = 0) =>
    record(process, 0, [{ ...left(one, { silenceMs: 0, heardAgoMs }), leftAgoMs: -1 }]);
  await record(holder, 0, [connected(one, { twoWay: false })]);
  await pass(25);
  await record(holder, 0, []);
  expect(await onlineOf(one)).toBe(true);
  await shows(other);
  await pass(25);
  await record(holder, 0, []);
  expect(await onlineOf(one)).toBe(true);
  await pass(21);
  await record(holder, 0, []);
  const from = Date.now() - 45_000;
  const seen = await seenOf(one);
  expect(seen?.online).toBe(false);
  const after = Date.parse(seen?.online_if_reported_after ?? '');
  expect([after >= from, after <= Date.now() - 45_000]).toEqual([true, true]);
  // Without a stream anywhere, no report makes it online.
  await record(holder, 0, [left(one)]);
  await pass(21);
  await shows(other);
  expect(await seenOf(one)).toEqual({ online: false, last_seen_at: expect.any(String) });
});

test('what a server of the version before records counts as it did: online while it holds a stream', async () => {
  const { store, org, url, one, pass, onlineOf } = await setUp();
  const old = randomUUID();
  await query(
    url,
    `INSERT INTO stream_processes (id, seen_at) VALUES ('${old}', now());
     INSERT INTO device_presence (device_id, process_id, org_id, connected, last_seen_at) VALUES ('${one}', '${old}', '${org}', true, now())`,
  );
  await pass(300);
  expect(await onlineOf(one)).toBe(false);
  await query(url, `UPDATE stream_processes SET seen_at = now()`);
  expect(await onlineOf(one)).toBe(true);
  await query(url, `UPDATE device_presence SET connected = false`);
  expect(await onlineOf(one)).toBe(false);
  expect((await store.presence.read(org)).size).toBe(1);
});

test('the devices of a process that died are offline after twenty seconds, and remembered when it is forgotten', async () => {
  const { store, org, url, one, pass, onlineOf } = await setUp();
  const dead = randomUUID();
  await store.presence.record(dead, 0, [connected(one)]);
  await pass(25);
  expect(await onlineOf(one)).toBe(false);
  await pass(60);
  const before = (await store.presence.read(org)).get(one);
  await store.presence.forget();
  expect(await query(url, 'SELECT 1 FROM stream_processes')).toEqual([]);
  expect((await store.presence.read(org)).get(one)).toEqual(before);
  // It was only frozen. It learns that its record was dropped.
  expect(await store.presence.record(dead, 0, [])).toBe(true);
  await store.presence.record(dead, 0, [connected(one)]);
  expect(await onlineOf(one)).toBe(true);
  await pass(100);
  await store.presence.forget();
  expect(await query(url, 'SELECT process_id FROM device_presence')).toEqual([
    { process_id: '00000000-0000-0000-0000-000000000000' },
  ]);
});

test('a device that was deleted meanwhile is passed over, and takes its presence along', async () => {
  const { store, org, owner, url, one, two } = await setUp();
  await store.presence.record(randomUUID(), 0, [connected(one)]);
  await store.devices.delete(org, owner, one);
  expect(await query(url, 'SELECT 1 FROM device_presence')).toEqual([]);
  const process = randomUUID();
  await store.presence.record(process, 0, [left(one), connected(two)]);
  expect([...(await store.presence.read(org)).keys()]).toEqual([two]);
});
