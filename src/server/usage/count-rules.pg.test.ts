/** Proves the usage of rules over counts by day: by the policy of the time of the traffic, never "unused" for what was not observed, with any number of sums, and counted by one process for all. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../test/lib/postgres.ts';
import type { GroupUsage } from '../../api/usage/rule-usage.ts';
import { parseGroupId, type DeviceId, type GroupId } from '../../policy/ids.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { Snapshots, type SnapshotsOptions } from '../preview/snapshots.ts';
import { processSlices, SlicedWork } from '../scheduling/time-slices.ts';
import { asServer } from '../store/contract/actor.ts';
import type { FlowSum } from '../store/contract/flows/flows.ts';
import type { Store, StoreOptions } from '../store/contract/store.ts';
import { blockFilter, writeBlock } from '../store/flows/sum-block.ts';
import { device, group, makeWorld, openTestStore, query } from '../store/store.fixture.ts';
import { RuleCounter } from './count-rules.ts';
import { unusedRules } from './unused-rules.ts';
import { groupUsage } from './usage.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const tcp = (port: number): StoredRule => ({ ip_protocol: 'tcp', from_port: port, to_port: port });
const admitted = (port: number): FlowSum => ({
  direction: 'in',
  verdict: 'admitted',
  family: 4,
  far: 0x0a00_0001n,
  protocol: 6,
  port,
  packets: 3,
});
const time = (at: number): string => new Date(at).toISOString();

function counterOf(
  { log, ruleUsage }: Pick<Store, 'log' | 'ruleUsage'>,
  clock: () => number,
): { readonly counter: RuleCounter; readonly snapshots: Snapshots; readonly loads: { states: number } } {
  const slices = processSlices();
  const loads = { states: 0 };
  const counted: SnapshotsOptions['log'] = {
    heads: (...args) => log.heads(...args),
    readChanges: (...args) => log.readChanges(...args),
    readState: (...args) => {
      loads.states += 1;
      return log.readState(...args);
    },
  };
  const snapshots = new Snapshots({ log: counted, slices, monotonic: () => performance.now(), clock });
  return {
    counter: new RuleCounter({ store: { ruleUsage }, snapshots, enter: async () => () => {}, slices, clock }),
    snapshots,
    loads,
  };
}

async function setUp(options: Partial<StoreOptions> = {}) {
  const begin = Date.UTC(2026, 10, 18, 12);
  const now = { at: begin, isStuck: false };
  const clock = (): number => now.at;
  const world = await makeWorld(postgres, { clock, ...options });
  const { store, org, owner } = world;
  const horizon: Store['ruleUsage']['horizon'] = () =>
    now.isStuck ? Promise.resolve(undefined) : store.ruleUsage.horizon();
  const { log } = store;
  const { counter, snapshots } = counterOf({ log, ruleUsage: { ...store.ruleUsage, horizon } }, clock);
  const slices = processSlices();
  const newGroup = async (...ports: readonly number[]): Promise<GroupId> =>
    parseGroupId((await store.groups.create(org, owner, 'organization', group({ inbound_rules: ports.map(tcp) }))).id);
  const newDevice = async (...groups: readonly GroupId[]): Promise<DeviceId> =>
    (await store.devices.create(org, owner, device(owner.user_id, { security_groups: groups }))).record.id;
  /** What a device observed since its last report: a report a minute would say the same. */
  const report = (id: DeviceId, ports: readonly number[], lengthMs = minute, more: Partial<FlowSum> = {}) =>
    store.flows.report(
      org,
      id,
      {
        since: time(now.at - lengthMs),
        until: time(now.at),
        observed: 'all',
        sums: ports.map((port) => ({ ...admitted(port), ...more })),
        not_recorded: 0,
      },
      asServer,
    );
  const usage = async (id: GroupId, since = begin): Promise<GroupUsage> => {
    await counter.count(org, processSlices());
    const snapshot = await snapshots.read(org);
    const found = await groupUsage(
      { org, group: id, snapshot, reader: undefined, since, until: now.at },
      { store, slices },
    );
    if (found === undefined) throw new Error('no group');
    return found;
  };
  const states = async (id: GroupId, since?: number): Promise<readonly string[]> =>
    (await usage(id, since)).rules.map(({ state, packets }) => `${state} ${packets}`);
  const unused = async (since: number): Promise<number> => {
    await counter.count(org, processSlices());
    const snapshot = await snapshots.read(org);
    return (await unusedRules({ org, snapshot, reader: undefined, since, until: now.at }, { store, slices })).count;
  };
  return { ...world, begin, now, clock, counter, newGroup, newDevice, report, usage, states, unused };
}

test('a device that gets a group later is judged with it from then on: its traffic of before is not counted for the group, and is not taken for observed', async () => {
  const { store, org, owner, begin, now, newGroup, newDevice, report, states } = await setUp();
  const [before, later] = [await newGroup(22, 80), await newGroup(22, 80)];
  const id = await newDevice(before);
  now.at = begin + hour;
  await report(id, [80], hour);
  expect(await states(before)).toEqual(['unused 0', 'used 3']);
  await store.devices.update(org, owner, id, { security_groups: [later] });
  now.at = begin + 2 * hour;
  await report(id, [], hour);
  // All of its time was observed, half of it without the group.
  expect(await states(later)).toEqual(['unknown 0', 'unknown 0']);
  expect(await states(later, begin + hour)).toEqual(['unused 0', 'unused 0']);
  now.at += 1_000;
  await report(id, [80], 1_000);
  expect(await states(later)).toEqual(['unknown 0', 'used 3']);
});

test('a rule that is changed and changed back has its counts again, and what another policy decided meanwhile is not its own', async () => {
  const { store, org, owner, begin, now, newGroup, newDevice, report, states } = await setUp();
  const id = await newGroup(80, 22);
  const one = await newDevice(id);
  now.at = begin + minute;
  await report(one, [80]);
  expect(await states(id)).toEqual(['used 3', 'unused 0']);
  const write = (...ports: readonly number[]) =>
    store.groups.update(org, owner, 'organization', id, { inbound_rules: ports.map(tcp) });
  await write(8080, 22);
  now.at = begin + 2 * minute;
  await report(one, [8080, 22]);
  // The kernel admitted it by rules that it had before.
  now.at += 1_000;
  await report(one, [80], 1_000);
  expect(await states(id)).toEqual(['used 3', 'used 3']);
  await write(80, 22);
  expect(await states(id)).toEqual(['used 3', 'used 3']);
});

test('a device that was never observed leaves rules unknown, and what is not counted yet is not observed', async () => {
  const { store, org, begin, now, counter, newGroup, newDevice, report, states, usage } = await setUp();
  const id = await newGroup(80);
  const one = await newDevice(id);
  now.at = begin + hour;
  await report(one, [22], hour, { verdict: 'refused' });
  expect(await states(id)).toEqual(['unused 0']);
  // As on a server that has not come to it.
  now.isStuck = true;
  now.at = begin + 2 * hour;
  await report(one, [80], hour);
  expect(await states(id)).toEqual(['unknown 0']);
  expect((await usage(id)).observed).toBeLessThan(0.6);
  now.isStuck = false;
  await counter.countAll();
  expect(await store.ruleUsage.uncounted([org])).toEqual([]);
  expect(await states(id)).toEqual(['used 3']);
  const silent = await newGroup(80);
  await newDevice(silent);
  now.at = begin + 3 * hour;
  expect(await states(silent)).toEqual(['unknown 0']);
});

test('an organization with far more sums than one request looks at gets answers over 30 days, while two servers count and the sums are removed', async () => {
  const { store, org, url, begin, now, clock, counter, newGroup, newDevice, states, unused, usage } = await setUp({
    flowsPerOrganization: 100_000,
  });
  const id = await newGroup(80, 22, 443);
  const devices: DeviceId[] = [];
  for (let n = 0; n < 40; n += 1) devices.push(await newDevice(id));
  const second = await openTestStore(url, { clock, flowsPerOrganization: 100_000 });
  const other = counterOf(second, clock).counter;
  const sums = Array.from({ length: 100 }, (_, n) => ({ ...admitted(n % 2 === 0 ? 80 : 443), far: BigInt(n) }));
  // Each day each of the devices reports 200 blocks: 800,000 sums.
  for (const after of [1, 30]) {
    now.at = begin + after * day;
    await query(
      url,
      `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
       SELECT '${org}', d, t - interval '1 minute', t, 0, true, false, 100, '${blockFilter(sums)}'::bit(2048), '\\x${writeBlock(sums).toString('hex')}'
       FROM unnest('{${devices.join(',')}}'::uuid[]) AS d, generate_series(1, 200) AS n, LATERAL (SELECT '${time(now.at)}'::timestamptz - n * interval '1 minute' AS t) AS at`,
    );
    await Promise.all([counter.countAll(), other.countAll()]);
    await store.flows.forget();
  }
  // Every day in between was observed, too.
  await query(
    url,
    `INSERT INTO flow_coverage (org_id, device_id, day, last_since, through, refused_seconds, all_seconds, not_recorded)
     SELECT '${org}', d, t::date, t, t + interval '1 day', 0, 86400, 0
     FROM unnest('{${devices.join(',')}}'::uuid[]) AS d, generate_series('${time(begin)}'::timestamptz, '${time(now.at)}'::timestamptz, interval '1 day') AS t`,
  );
  const [{ left } = { left: '' }] = await query<{ left: string }>(url, 'SELECT sum(sums) AS left FROM flows');
  expect(Number(left)).toBeLessThanOrEqual(100_000);
  const packets = 2 * devices.length * 200 * 50 * 3;
  expect(await states(id)).toEqual([`used ${packets}`, 'unused 0', `used ${packets}`]);
  expect(await usage(id)).toMatchObject({ since: time(begin), devices: 40, not_recorded: 0, observed: 1 });
  expect(await unused(begin + 1_000)).toBe(1);
});

test('of the processes that list an organization one loads it, also where new traffic comes; the next one does five minutes later', async () => {
  const { store, begin, now, clock, newGroup, newDevice, report } = await setUp();
  const id = await newDevice(await newGroup(80));
  const reportAt = async (at: number): Promise<void> => {
    now.at = at;
    await report(id, [80]);
  };
  await reportAt(begin + minute);
  const first = counterOf(store, clock);
  const later: Store['ruleUsage'] = {
    ...store.ruleUsage,
    async uncounted(among) {
      const listed = await store.ruleUsage.uncounted(among);
      await first.counter.countAll();
      await reportAt(begin + 2 * minute);
      return listed;
    },
  };
  const second = counterOf({ log: store.log, ruleUsage: later }, clock);
  await second.counter.countAll();
  expect([first.loads.states > 0, second.loads.states]).toEqual([true, 0]);
  expect(await store.ruleUsage.uncounted()).toHaveLength(1);
  const third = counterOf(store, clock);
  await reportAt(begin + 6 * minute);
  await third.counter.countAll();
  expect(third.loads.states).toBeGreaterThan(0);
  // A clock that goes back leaves no claim of the future.
  const fourth = counterOf(store, clock);
  await reportAt(begin - day);
  await fourth.counter.countAll();
  expect(fourth.loads.states).toBeGreaterThan(0);
  expect(await store.ruleUsage.uncounted()).toEqual([]);
});

test('the upkeep keeps nothing of the organizations that it loads, and uses what requests keep', async () => {
  const { store, org, owner, begin, now, clock, newGroup, newDevice, report } = await setUp();
  await newDevice(await newGroup(80)).then((id) => report(id, [80]));
  const { id: other } = await store.organizations.create(owner.user_id, { name: 'other', description: '' }, asServer);
  const { record } = await store.devices.create(other, owner, device(owner.user_id));
  const span = { since: time(begin - minute), until: time(begin), observed: 'all', not_recorded: 0 } as const;
  await store.flows.report(other, record.id, { ...span, sums: [admitted(80)] }, asServer);
  const { counter, snapshots, loads } = counterOf(store, clock);
  const loadsFor = async (work: () => Promise<unknown>): Promise<boolean> => {
    const before = loads.states;
    await work();
    return loads.states > before;
  };
  expect(await loadsFor(() => counter.countAll())).toBe(true);
  expect(await store.ruleUsage.uncounted()).toEqual([]);
  for (const each of [org, other]) {
    expect(await loadsFor(() => snapshots.read(each))).toBe(true);
    expect(await loadsFor(() => snapshots.read(each))).toBe(false);
  }
  now.at = begin + hour;
  await store.flows.report(other, record.id, { ...span, until: time(now.at), sums: [admitted(80)] }, asServer);
  expect(await loadsFor(() => counter.countAll())).toBe(false);
});

test('a request does not wait for a counting of the upkeep, which may take long', async () => {
  const { store, org, clock, newGroup, newDevice, report } = await setUp();
  await newDevice(await newGroup(80)).then((id) => report(id, [80]));
  let begins = (): void => {};
  const begun = new Promise<void>((done) => (begins = done));
  let end = (): void => {};
  const count: Store['ruleUsage']['count'] = async (...args) => {
    begins();
    await new Promise<void>((done) => (end = done));
    return store.ruleUsage.count(...args);
  };
  const { counter } = counterOf({ log: store.log, ruleUsage: { ...store.ruleUsage, count } }, clock);
  const upkeep = counter.countAll();
  await begun;
  await counter.count(org, processSlices());
  expect(await store.ruleUsage.uncounted()).toEqual([org]);
  end();
  await upkeep;
  expect(await store.ruleUsage.uncounted()).toEqual([]);
});

test('traffic and many rules are judged in pauses: none is longer than a group takes, however many rules there are', async () => {
  const { begin, now, clock, newGroup, newDevice, report, store } = await setUp();
  const groups: GroupId[] = [];
  for (let n = 0; n < 20; n += 1)
    groups.push(await newGroup(80, ...Array.from({ length: 999 }, (_, index) => 1 + n * 1_000 + index)));
  await newDevice(...groups).then((id) => {
    now.at = begin + minute;
    return report(
      id,
      Array.from({ length: 200 }, (_, n) => 1 + n * 90),
    );
  });
  let pauses = 0;
  class Counted extends SlicedWork {
    protected override readonly monotonic = () => performance.now();
    override next(): undefined {
      pauses += 1;
    }
  }
  const { snapshots } = counterOf(store, clock);
  await new RuleCounter({ store, snapshots, enter: async () => () => {}, slices: new Counted(), clock }).countAll();
  expect(await store.ruleUsage.uncounted()).toEqual([]);
  // Each of 200 sums meets 20 groups.
  expect(pauses).toBeGreaterThan(200 * 20);
});

test('an organization that takes long to count lets others go first, and is counted with what is left of the upkeep', async () => {
  const { store, org, begin, newGroup, newDevice, report, owner, clock } = await setUp();
  await newDevice(await newGroup(80)).then((id) => report(id, [80]));
  const { id: other } = await store.organizations.create(owner.user_id, { name: 'other', description: '' }, asServer);
  const { record } = await store.devices.create(other, owner, device(owner.user_id));
  const span = { since: time(begin - minute), until: time(begin), observed: 'all', not_recorded: 0 } as const;
  await store.flows.report(other, record.id, { ...span, sums: [admitted(80)] }, asServer);
  const [first = org] = await store.ruleUsage.uncounted();
  const turns: string[] = [];
  const shares: number[] = [];
  const count: Store['ruleUsage']['count'] = async (of, judge, given, work) => {
    turns.push(of === first ? 'slow' : 'other');
    if (of !== first) return store.ruleUsage.count(of, judge, given, work);
    shares.push(given.workMs);
    expect(given.leastBlocks).toBe(1);
    return shares.length < 3 ? 'more' : store.ruleUsage.count(of, judge, given, work);
  };
  const { counter } = counterOf({ log: store.log, ruleUsage: { ...store.ruleUsage, count } }, clock);
  await counter.countAll();
  expect(turns).toEqual(['slow', 'other', 'slow', 'slow']);
  expect(shares).toEqual([...shares].toSorted((a, b) => a - b));
  expect(await store.ruleUsage.uncounted()).toEqual([]);
});
