/** Proves the usage of rules in the database: each report counts once, by day, and since when a device has said what a group decided. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseGroupId, type GroupId } from '../../../policy/ids.ts';
import { asServer } from '../data/actor.ts';
import type { FlowBatch, FlowSum } from '../data/flows.ts';
import type { StoreOptions } from '../open.ts';
import { forgetOld, device, makeWorld, openTestStore } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const minute = 60_000;
const day = 86_400_000;
const start = Date.UTC(2026, 10, 18, 12);
const group = parseGroupId('00000000-0000-4000-8000-0000000000a1');
const other = parseGroupId('00000000-0000-4000-8000-0000000000a2');
const time = (at: number): string => new Date(at).toISOString();
const sum: FlowSum = {
  direction: 'in',
  verdict: 'admitted',
  family: 4,
  far: 0x0a00_0001n,
  protocol: 6,
  port: 443,
  packets: 1,
};
const ruleOf = (n: number): string => n.toString(16).padStart(32, '0');

async function setUp(options: Partial<StoreOptions> = {}) {
  const now = { at: start };
  const world = await makeWorld(postgres, { clock: () => now.at, ...options });
  const { store, org, owner, url } = world;
  const newDevice = async () => (await store.devices.create(org, owner, device(owner.user_id))).record.id;
  const [id, second] = [await newDevice(), await newDevice()];
  /** Rules by number, each with one packet. */
  const batch = (rules: readonly number[], groups: readonly GroupId[] = [group], unknown = 0): FlowBatch => ({
    since: time(now.at - minute),
    until: time(now.at),
    observed: 'all',
    sums: [sum],
    not_recorded: 0,
    rules: { groups, rules: rules.map((n) => ({ group, rule: ruleOf(n), packets: 1 })), unknown },
  });
  const report = (given: FlowBatch, by = id, at = store) => at.flows.report(org, by, given, asServer);
  const packets = async (since = start - day): Promise<Record<string, number>> =>
    Object.fromEntries(
      (await store.ruleUsage.counts(org, time(since))).map((count) => [Number.parseInt(count.rule, 16), count.packets]),
    );
  const since = async (of?: GroupId) =>
    Object.fromEntries(
      (await store.ruleUsage.reportedSince(org, [id], of)).map((pair) => [pair.group.slice(-2), pair.since]),
    );
  const again = () => openTestStore(url, { clock: () => now.at, ...options });
  return { ...world, now, id, second, batch, report, packets, since, again };
}

test('a report counts once for its rules and its day, however often it comes, from whatever server', async () => {
  const { store, org, now, batch, report, packets, again } = await setUp();
  const elsewhere = await again();
  const first = batch([22, 80]);
  await report(first);
  await Promise.all([report(first), report(first, undefined, elsewhere)]);
  expect(await packets()).toEqual({ 22: 1, 80: 1 });
  now.at = start + day;
  await report(batch([22]), undefined, elsewhere);
  expect(await packets()).toEqual({ 22: 2, 80: 1 });
  expect(await packets(start + day)).toEqual({ 22: 1 });
  const [found] = await store.ruleUsage.counts(org, time(start + day), group);
  expect(found).toEqual({ group, rule: ruleOf(22), packets: 1, last_hit: time(start + day) });
  expect(await store.ruleUsage.counts(org, time(start), other)).toEqual([]);
});

test('two servers that many devices report to at once lose nothing, and do not wait for each other forever', async () => {
  const { store, org, owner, batch, report, packets, again } = await setUp();
  const elsewhere = await again();
  const devices = await Promise.all(
    Array.from({ length: 40 }, async () => (await store.devices.create(org, owner, device(owner.user_id))).record.id),
  );
  const rules = Array.from({ length: 100 }, (_, n) => n + 1);
  await Promise.all(
    devices.map((id, n) => report(batch(n % 2 === 0 ? rules : rules.toReversed()), id, n % 4 < 2 ? store : elsewhere)),
  );
  expect(await packets()).toEqual(Object.fromEntries(rules.map((n) => [n, 40])));
});

test('a group is reported since the first report that names it, without a break', async () => {
  const { now, batch, report, since } = await setUp();
  const next = (groups: readonly GroupId[]): Promise<unknown> => {
    now.at += minute;
    return report(batch([], groups));
  };
  await report(batch([], [group]));
  await next([group, other]);
  await next([group, other]);
  expect(await since()).toEqual({ a1: time(start - minute), a2: time(start) });
  expect(await since(other)).toEqual({ a2: time(start) });
  await next([other]);
  await next([group, other]);
  expect(await since()).toEqual({ a1: time(start + 3 * minute), a2: time(start) });
  // An agent of an earlier version takes its place.
  now.at += minute;
  await report({ ...batch([]), rules: undefined });
  expect(await since()).toEqual({});
});

test('packets of unknown rules count as not recorded for usage, and not for the traffic', async () => {
  const { store, org, id, now, batch, report } = await setUp();
  await report(batch([], [group], 7));
  now.at += minute;
  await report(batch([], [group], 2));
  expect(await store.ruleUsage.coverage(org, time(start), [id])).toMatchObject([{ not_recorded: 9, all_seconds: 120 }]);
  expect(await store.flows.coverage(org, time(start), [id])).toMatchObject([{ not_recorded: 0 }]);
});

test('counts and the time that was observed outlive the sums, for 31 days', async () => {
  const { store, org, id, now, batch, report, packets } = await setUp({
    flowRetentionMs: day,
    flowsPerOrganization: 1,
  });
  await report(batch([22]));
  now.at += minute;
  await report({ ...batch([80]), sums: [sum, { ...sum, port: 80 }] });
  await forgetOld(store);
  expect(await packets()).toEqual({ 22: 1, 80: 1 });
  expect(await store.flows.coverage(org, time(start), [id])).toEqual([]);
  expect(await store.ruleUsage.coverage(org, time(start), [id])).toMatchObject([{ all_seconds: 120 }]);
  const kept = async (days: number): Promise<readonly number[]> => {
    now.at = start + days * day;
    await forgetOld(store);
    const covered = await store.ruleUsage.coverage(org, time(start), [id]);
    return [Object.keys(await packets()).length, covered.length];
  };
  expect(await kept(31)).toEqual([2, 1]);
  expect(await kept(33)).toEqual([0, 0]);
});
