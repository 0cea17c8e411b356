/** Proves the counting of rules in the database: each report once, whoever counts and wherever it is broken off, and kept as long as it is told. */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import type { EffectivePolicy } from '../../../policy/effective.ts';
import { parseGroupId, type DeviceId, type GroupId, type OrganizationId } from '../../../policy/ids.ts';
import { processSlices } from '../../scheduling/time-slices.ts';
import { asServer } from '../contract/actor.ts';
import type { FlowSum } from '../contract/flows/flows.ts';
import type { FlowHorizon, RuleUsageCounts, UsageJudge } from '../contract/flows/rule-usage.ts';
import type { Store, StoreOptions } from '../contract/store.ts';
import { device, makeWorld, openTestStore, query } from '../store.fixture.ts';
import { blockFilter, writeBlock } from './sum-block.ts';

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
const slices = processSlices();
const everything = (horizon: FlowHorizon) => ({ horizon, blocks: Infinity, workMs: Infinity });
const time = (at: number): string => new Date(at).toISOString();
const sum = (port: number): FlowSum => ({
  direction: 'in',
  verdict: 'admitted',
  family: 4,
  far: 0x0a00_0001n,
  protocol: 6,
  port,
  packets: 1,
});
const ruleFor = (port: number): string => port.toString(16).padStart(32, '0');

/** Each port is a rule of its own. */
function judge(
  devices: readonly DeviceId[],
  more: Partial<UsageJudge> & { groups?: readonly GroupId[] } = {},
): UsageJudge {
  const policy: EffectivePolicy = { source: 'list', groups: [] };
  const { groups = [group], ...rest } = more;
  return {
    revision: 100,
    policies: new Map(devices.map((id) => [id, policy])),
    pairs: groups.flatMap((id) => devices.map((one) => ({ group: id, device: one }))),
    *rulesOf(_policy, { port }) {
      yield;
      return groups.map((id) => ({ group: id, rule: ruleFor(port) }));
    },
    ...rest,
  };
}

async function setUp(options: Partial<StoreOptions> = {}) {
  const now = { at: start };
  const world = await makeWorld(postgres, { clock: () => now.at, ...options });
  const { store, org, owner, url } = world;
  const { id } = (await store.devices.create(org, owner, device(owner.user_id))).record;
  const report = (sums: readonly FlowSum[], at = now.at) =>
    store.flows.report(
      org,
      id,
      { since: time(at - minute), until: time(at), observed: 'all', sums, not_recorded: 0 },
      asServer,
    );
  const packets = async (since = start - day): Promise<Record<string, number>> =>
    Object.fromEntries(
      (await store.ruleUsage.counts(org, time(since))).map((count) => [
        `${count.group.slice(-2)}/${Number.parseInt(count.rule, 16)}`,
        count.packets,
      ]),
    );
  return { ...world, now, id, report, packets, again: () => openTestStore(url, { clock: () => now.at, ...options }) };
}

/** Blocks of one sum each, some for each second, put in beside the store. */
async function fill(url: string, { org, id }: { org: OrganizationId; id: DeviceId }, count: number): Promise<void> {
  const block = [sum(80)];
  await query(
    url,
    `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
     SELECT '${org}', '${id}', t, t, n % 100, true, false, 1, '${blockFilter(block)}'::bit(2048), '\\x${writeBlock(block).toString('hex')}'
     FROM generate_series(1, ${count}) AS n, LATERAL (SELECT '${time(start)}'::timestamptz - n / 100 * interval '1 second' AS t) AS at`,
  );
}

async function countAll(
  ruleUsage: RuleUsageCounts,
  org: OrganizationId,
  by: UsageJudge,
  blocks = Infinity,
): Promise<boolean> {
  const horizon = await ruleUsage.horizon();
  if (horizon === undefined) throw new Error('no horizon');
  return (await ruleUsage.count(org, by, { horizon, blocks, workMs: Infinity }, slices)) === 'all';
}

test('every sum counts once for its rule and day, and a second counting adds nothing', async () => {
  const { store, org, id, now, report, packets } = await setUp();
  const { ruleUsage } = store;
  await report([sum(22), sum(80)]);
  expect(await ruleUsage.uncounted()).toEqual([org]);
  expect(await ruleUsage.uncountedTime(org)).toEqual([
    { device_id: id, day: '2026-11-18', refused_seconds: 0, all_seconds: 60 },
  ]);
  expect(await countAll(ruleUsage, org, judge([id]))).toBe(true);
  expect(await packets()).toEqual({ 'a1/22': 1, 'a1/80': 1 });
  expect([await ruleUsage.uncounted(), await ruleUsage.uncountedTime(org)]).toEqual([[], []]);
  expect(await countAll(ruleUsage, org, judge([id]))).toBe(true);
  now.at = start + day;
  await report([sum(22)]);
  expect(await countAll(ruleUsage, org, judge([id]))).toBe(true);
  expect(await packets()).toEqual({ 'a1/22': 2, 'a1/80': 1 });
  expect(await packets(start + day)).toEqual({ 'a1/22': 1 });
  const [found] = await ruleUsage.counts(org, time(start), group);
  expect(found).toMatchObject({ group, last_hit: time(start + day) });
  expect(await ruleUsage.counts(org, time(start), other)).toEqual([]);
});

test('two servers that count at the same time count each report once', async () => {
  const { store, org, id, url, packets, again } = await setUp();
  const second = await again();
  await fill(url, { org, id }, 6_000);
  const run = async ({ ruleUsage }: Store): Promise<void> => {
    while (!(await countAll(ruleUsage, org, judge([id])))) await ruleUsage.uncounted();
  };
  await Promise.all([store, second, store, second].map(run));
  expect(await packets()).toEqual({ 'a1/80': 6_000 });
});

test('a counting that is broken off goes on where it was, also where the database ends all connections', async () => {
  const { store, org, id, url, packets, again } = await setUp();
  await fill(url, { org, id }, 3_000);
  let judged = 0;
  const policy: EffectivePolicy = { source: 'list', groups: [] };
  // Like a server that ends: nothing of the step that it is in is written.
  const whenJudged = (then: () => void, at: number): UsageJudge => ({
    ...judge([id]),
    policies: {
      get: () => {
        judged += 1;
        if (judged === at) then();
        return policy;
      },
    } as unknown as UsageJudge['policies'],
  });
  const end = (): never => {
    throw new Error('ended');
  };
  await expect(countAll(store.ruleUsage, org, whenJudged(end, 700))).rejects.toThrow('ended');
  expect(await packets()).toEqual({ 'a1/80': 512 });
  const second = await again();
  const endConnections = (): void =>
    void query(
      url,
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
  await countAll(second.ruleUsage, org, whenJudged(endConnections, 1_500)).catch(() => {});
  await expect
    .poll(() => countAll(second.ruleUsage, org, judge([id])).catch(() => false), { timeout: 20_000 })
    .toBe(true);
  expect(await packets()).toEqual({ 'a1/80': 3_000 });
});

test('a report that is being written is waited for, and one that takes too long is left for the next time', async () => {
  const { store, org, id, url, packets } = await setUp();
  const { ruleUsage } = store;
  const writer = new Client({ connectionString: url });
  await writer.connect();
  onTestFinished(() => writer.end());
  const insert = `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
    VALUES ($1, $2, now(), now(), 0, true, false, 1, $3::text::bit(2048), $4)`;
  const values = [org, id, blockFilter([sum(22)]), writeBlock([sum(22)])];
  await writer.query('BEGIN');
  await writer.query(insert, values);
  expect(await ruleUsage.horizon()).toBeUndefined();
  // One that has its id and is not visible yet, beside one that is.
  await fill(url, { org, id }, 1);
  const asked = ruleUsage.horizon();
  await expect(
    Promise.race([asked.then(() => 'given'), new Promise((done) => setTimeout(() => done('waits'), 300))]),
  ).resolves.toBe('waits');
  await writer.query('COMMIT');
  const horizon = await asked;
  if (horizon === undefined) throw new Error('no horizon');
  expect(await ruleUsage.count(org, judge([id]), everything(horizon), slices)).toBe('all');
  expect(Object.keys(await packets(0))).toEqual(expect.arrayContaining(['a1/22', 'a1/80']));
});

test('a place in the traffic of a lost primary counts nothing and begins no counting: its ids may be given again', async () => {
  const { store, org, id, url, report, packets } = await setUp();
  await report([sum(22)]);
  const horizon = await store.ruleUsage.horizon();
  if (horizon === undefined) throw new Error('no horizon');
  const lost = { ...horizon, id: '1000', timeline: 'FFFFFFFF' };
  expect(await store.ruleUsage.count(org, judge([id]), everything(lost), slices)).toBe('elsewhere');
  expect([await packets(), await store.ruleUsage.uncounted()]).toEqual([{}, [org]]);
  expect(await store.ruleUsage.count(org, judge([id]), everything(horizon), slices)).toBe('all');
  expect(await packets()).toEqual({ 'a1/22': 1 });
  // Up to here, traffic by the hour counts, too.
  expect(await query(url, 'SELECT hourly_through::text AS id FROM usage_positions')).toEqual([{ id: horizon.id }]);
});

test('who judges by an earlier state of the organization than another server counts nothing', async () => {
  const { store, org, id, report, packets } = await setUp();
  await report([sum(22)]);
  expect(await countAll(store.ruleUsage, org, judge([id], { revision: 101 }))).toBe(true);
  await report([sum(80)], start + 1);
  expect(await countAll(store.ruleUsage, org, judge([id], { revision: 100 }))).toBe(false);
  expect(await packets()).toEqual({ 'a1/22': 1 });
  expect(await countAll(store.ruleUsage, org, judge([id], { revision: 101 }))).toBe(true);
  expect(await packets()).toEqual({ 'a1/22': 1, 'a1/80': 1 });
});

test('a device is judged with a group since the counting before the group came to it', async () => {
  const { store, org, id, now, report } = await setUp();
  const { ruleUsage } = store;
  const since = async (of: GroupId): Promise<readonly string[]> =>
    (await ruleUsage.judgedSince(org, of)).pairs.map((pair) => pair.since);
  await report([sum(22)]);
  await countAll(ruleUsage, org, judge([id]));
  expect(await since(group)).toEqual([time(0)]);
  now.at = start + minute;
  await report([sum(22)]);
  await countAll(ruleUsage, org, judge([id], { revision: 101, groups: [group, other] }));
  expect([await since(group), await since(other)]).toEqual([[time(0)], [time(start)]]);
  // The group goes, and comes back.
  now.at = start + 2 * minute;
  await countAll(ruleUsage, org, judge([id], { revision: 102, groups: [other] }));
  now.at = start + 3 * minute;
  await countAll(ruleUsage, org, judge([id], { revision: 103, groups: [group, other] }));
  expect([await since(group), await since(other)]).toEqual([[time(start + 2 * minute)], [time(start)]]);
});

test('traffic that was added up before the counting began counts once, and what is added up later does not count again', async () => {
  const { store, org, id, url, now, report, packets } = await setUp();
  await report([sum(22)]);
  await query(url, 'UPDATE flows SET is_hourly = true');
  now.at = start + minute;
  await report([sum(22)]);
  await countAll(store.ruleUsage, org, judge([id]));
  expect(await packets()).toEqual({ 'a1/22': 2 });
  now.at = start + 240 * minute;
  await store.flows.forget();
  expect(await query(url, 'SELECT id FROM flows WHERE NOT is_hourly')).toEqual([]);
  expect(await store.ruleUsage.uncounted()).toEqual([]);
  await countAll(store.ruleUsage, org, judge([id]));
  expect(await packets()).toEqual({ 'a1/22': 2 });
});

test('what is not counted is not added up', async () => {
  const { store, url, now, report } = await setUp();
  await report([sum(22)]);
  now.at = start + 240 * minute;
  await store.flows.forget();
  expect(await query(url, 'SELECT id FROM flows WHERE is_hourly')).toEqual([]);
});

test.each([
  ['added up', 1],
  ['kept as it was reported', 300_000],
] as const)('a report that comes while its hour is %s is counted', async (_, sums) => {
  const { store, org, id, url, now, report, packets } = await setUp();
  await report([sum(22)], start + minute);
  await report([sum(80)], start + 61 * minute);
  await query(url, `UPDATE flows SET sums = ${sums} WHERE until = '${time(start + 61 * minute)}'`);
  await countAll(store.ruleUsage, org, judge([id]));
  // When the first hour is added up, the second one was already found.
  await query(
    url,
    `CREATE FUNCTION report_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
       VALUES (NEW.org_id, NEW.device_id, '${time(start + 61 * minute)}', '${time(start + 62 * minute)}', 0, true, false, 1, NEW.filter, NEW.block);
       RETURN NULL; END $$;
     CREATE TRIGGER report_late AFTER INSERT ON flows FOR EACH ROW WHEN (NEW.is_hourly AND NEW.until = '${time(start + minute)}') EXECUTE FUNCTION report_late()`,
  );
  now.at = start + 300 * minute;
  await store.flows.forget();
  expect(await store.ruleUsage.uncountedTime(org)).toMatchObject([{ device_id: id, all_seconds: 60 }]);
  await countAll(store.ruleUsage, org, judge([id]));
  expect(await packets()).toEqual({ 'a1/22': 2, 'a1/80': 1 });
  await store.flows.forget();
  expect(await query(url, 'SELECT id FROM flows WHERE NOT is_hourly')).toEqual([]);
});

test('counts and the time that was observed outlive the sums, for 31 days; sums that go before they are counted take their day along', async () => {
  const { store, org, id, now, report, packets } = await setUp({ flowsPerOrganization: 1 });
  const { ruleUsage } = store;
  const kept = async (): Promise<readonly number[]> =>
    (await ruleUsage.coverage(org, time(start - day), [id])).map(({ all_seconds }) => all_seconds);
  await report([sum(22), sum(80)]);
  await countAll(ruleUsage, org, judge([id]));
  await store.flows.forget();
  expect((await store.flows.page(org, { limit: 10 })).flows).toEqual([]);
  expect(await store.flows.coverage(org, time(start))).toEqual([]);
  expect([await kept(), await packets()]).toEqual([[60], { 'a1/22': 1, 'a1/80': 1 }]);
  // The rest of the day is of sums that are kept.
  now.at = start + minute;
  await report([sum(22)]);
  expect(await store.flows.coverage(org, time(start))).toMatchObject([{ all_seconds: 60 }]);
  expect(await kept()).toEqual([120]);
  await countAll(ruleUsage, org, judge([id]));

  now.at = start + 15 * day;
  await store.flows.forget();
  await ruleUsage.forget();
  expect(await store.flows.coverage(org, time(start))).toEqual([]);
  expect([await kept(), await packets()]).toEqual([[120], { 'a1/22': 2, 'a1/80': 1 }]);
  await report([sum(22), sum(80)]);
  await store.flows.forget();
  expect(await kept()).toEqual([120]);
  now.at = start + 32 * day;
  await ruleUsage.forget();
  expect(await packets()).toEqual({});
});

test('coverage is kept for 31 days', async () => {
  const { store, org, id, now, report } = await setUp();
  await report([]);
  const days = async (): Promise<number> => (await store.ruleUsage.coverage(org, time(start), [id])).length;
  for (const [after, left] of [
    [30, 1],
    [32, 0],
  ] as const) {
    now.at = start + after * day;
    await store.flows.forget();
    expect(await days()).toBe(left);
  }
});

test('a counting that may take no longer judges as many whole blocks as it must, and the next one goes on there', async () => {
  const { store, org, id, url, packets } = await setUp();
  await fill(url, { org, id }, 5);
  let judged = 0;
  const slow = judge([id], {
    *rulesOf() {
      judged += 1;
      for (let step = 0; step < 1_000; step += 1) yield;
      return [{ group, rule: ruleFor(80) }];
    },
  });
  const horizon = await store.ruleUsage.horizon();
  if (horizon === undefined) throw new Error('no horizon');
  const count = (leastBlocks: number) =>
    store.ruleUsage.count(org, slow, { horizon, blocks: Infinity, workMs: 0, leastBlocks }, slices);
  expect([await count(0), await packets()]).toEqual(['more', {}]);
  expect([await count(2), await packets()]).toEqual(['more', { 'a1/80': 2 }]);
  expect([await count(0), await packets()]).toEqual(['more', { 'a1/80': 2 }]);
  expect([await count(9), await packets()]).toEqual(['all', { 'a1/80': 5 }]);
  expect(judged).toBeGreaterThan(0);
});
