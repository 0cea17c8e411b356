/**
 * Proves what servers conclude from a database that is started again, moves or loses a part of its history: what is said about it, that a cut is found
 * also where nobody reads, and what becomes of the reports of devices.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import type { DeviceId } from '../../../policy/ids.ts';
import { asServer } from '../data/actor.ts';
import type { Store } from '../open.ts';
import { device, makeWorld, openTestStore, query, type World } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const newest = 'WHERE serial = (SELECT max(serial) FROM eras)';
const restart = (url: string) => query(url, `UPDATE eras SET started_at = 'epoch' ${newest}`);
/** As if the era had begun on another timeline: a standby took over since. */
const failOver = (url: string) =>
  query(
    url,
    `UPDATE eras SET started_at = 'epoch', place = regexp_replace(place, '^(\\S+) \\S+', '\\1 other') ${newest}`,
  );
const replaceTables = (url: string) =>
  query(url, `UPDATE eras SET started_at = 'epoch', place = place || '0' ${newest}`);
/** Takes back what came after a revision. */
const putBack = async (url: string, revision: number) => {
  await query(url, `DELETE FROM changes WHERE revision > ${revision}`);
  await query(url, `DELETE FROM devices WHERE revision > ${revision}`);
  await query(url, `UPDATE heads SET revision = ${revision}`);
};

const create = (store: Store, { org, owner }: World) => store.devices.create(org, owner, device(owner.user_id));
const rows = (url: string) => query(url, 'SELECT xmin, ctid, device_id FROM device_status ORDER BY device_id');
const statusOf = async (store: Store, { org }: World, id: DeviceId) =>
  (await store.receipts.since(org)).statuses.find(({ device_id }) => device_id === id)?.status;

/** A server with a device that has reported, and what the server says. */
async function setUp() {
  const messages: string[] = [];
  const world = await makeWorld(postgres, { onWarning: (message) => messages.push(message) });
  const { record, revision } = await create(world.store, world);
  const status = { state: 'applied', revision, drift_repairs: 2 };
  const report = () => world.store.receipts.report(world.org, record.id, status, asServer);
  await report();
  return { ...world, world, messages, id: record.id, revision, status, report };
}

const lost = /lost a part of its history.*every organization leaps/;
const moved = /another primary took over.*Nothing that this server has seen is lost/;

test('a standby that has everything takes over: the reports of devices still count, and none is written again', async () => {
  const { store, url, world, messages, id, status } = await setUp();
  // One of them came to a server of an earlier version.
  const { record } = await create(store, world);
  await store.receipts.report(world.org, record.id, status, asServer);
  await query(url, `UPDATE device_status SET era = NULL WHERE device_id = '${record.id}'`);
  const before = await rows(url);
  await failOver(url);
  expect((await create(store, world)).revision).toBeGreaterThan(1_000_000);
  expect(messages).toEqual([expect.stringMatching(moved)]);
  expect(await rows(url)).toEqual(before);
  expect(await statusOf(store, world, id)).toEqual(status);
  expect(await statusOf(store, world, record.id)).toEqual(status);
});

test('a part of the history is lost: what devices reported before stays, and proves nothing until they report again', async () => {
  const { store, url, world, messages, id, revision, status, report } = await setUp();
  await create(store, world);
  const before = await rows(url);
  const { history } = await store.receipts.since(world.org);
  await restart(url);
  await putBack(url, revision);
  expect((await create(store, world)).revision).toBeGreaterThan(1_000_000);
  expect(messages).toEqual([expect.stringMatching(lost)]);
  expect(await rows(url)).toEqual(before);
  expect((await store.receipts.since(world.org)).history).not.toBe(history);
  expect(await statusOf(store, world, id)).toEqual({ state: 'applied', drift_repairs: 2 });
  await report();
  expect(await statusOf(store, world, id)).toEqual(status);
  // A later failover that loses nothing leaves it.
  await failOver(url);
  await create(store, world);
  expect(await statusOf(store, world, id)).toEqual(status);
});

test('a server that has seen what is lost corrects another one that verified first and had not seen it', async () => {
  const { store: here, url, world, messages, id, revision, status } = await setUp();
  const said: string[] = [];
  const there = await openTestStore(url, { onWarning: (message) => said.push(message) });
  await create(there, world);
  await failOver(url);
  await putBack(url, revision);
  const { revision: leapt } = await create(here, world);
  expect(messages).toEqual([expect.stringMatching(moved)]);
  expect(await statusOf(here, world, id)).toEqual(status);
  const { history } = await here.receipts.since(world.org);
  // It writes before it reads.
  expect((await create(there, world)).revision).toBe(leapt + 1);
  await expect.poll(() => said).toEqual([expect.stringMatching(lost)]);
  expect(await statusOf(here, world, id)).toEqual({ state: 'applied', drift_repairs: 2 });
  expect((await here.receipts.since(world.org)).history).not.toBe(history);
  // Once: nobody leaps again.
  expect((await create(here, world)).revision).toBe(leapt + 2);
  expect([messages.length, said.length]).toEqual([1, 1]);
});

test.each([
  ['other tables', replaceTables],
  ['another timeline', failOver],
])('a server that starts on %s does not know what is lost: reports from before prove nothing', async (_where, move) => {
  const { store, url, world, id } = await setUp();
  await store.close();
  await move(url);
  const messages: string[] = [];
  const other = await openTestStore(url, { onWarning: (message) => messages.push(message) });
  expect(messages).toEqual([expect.stringMatching(/another database answers.*may be lost/)]);
  expect(await statusOf(other, world, id)).toEqual({ state: 'applied', drift_repairs: 2 });
});

test('a cut is found although only transactions of several statements wrote, and nobody read', async () => {
  const { store, url, world, org, owner, id } = await setUp();
  const { revision } = await create(store, world);
  await store.devices.delete(org, owner, id);
  await restart(url);
  await putBack(url, revision);
  expect((await create(store, world)).revision).toBeGreaterThan(1_000_000);
});
