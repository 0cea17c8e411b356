/** Proves observed traffic in the database: kept once, paged without a gap, added up by the hour, and removed by age and by number. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import type { DeviceId } from '../../../policy/ids.ts';
import { asServer } from '../data/actor.ts';
import type { FlowBatch, FlowQuery, FlowSum, StoredFlow } from '../data/flows.ts';
import type { StoreOptions } from '../open.ts';
import { forgetOld, device, makeWorld, query } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const minute = 60_000;
const start = Date.UTC(2026, 10, 18, 12);
const sum = (far: number, more: Partial<FlowSum> = {}): FlowSum => ({
  direction: 'in',
  verdict: 'refused',
  family: 4,
  far: BigInt(0x0a00_0000 + far),
  protocol: 6,
  port: 443,
  packets: 2,
  ...more,
});
const batch = (at: number, sums: readonly FlowSum[], more: Partial<FlowBatch> = {}): FlowBatch => ({
  since: new Date(at - minute).toISOString(),
  until: new Date(at).toISOString(),
  observed: 'all',
  sums,
  not_recorded: 0,
  ...more,
});

async function setUp(options: Partial<StoreOptions> = {}) {
  const time = { now: start };
  const world = await makeWorld(postgres, { clock: () => time.now, ...options });
  const { store, org, owner } = world;
  const newDevice = async (): Promise<DeviceId> =>
    (await store.devices.create(org, owner, device(owner.user_id))).record.id;
  const [one, other] = [await newDevice(), await newDevice()];
  const all = async (more: Partial<FlowQuery> = {}): Promise<readonly StoredFlow[]> => {
    const flows: StoredFlow[] = [];
    for (let after: string | undefined; ;) {
      const page = await store.flows.page(org, { limit: 7, after, ...more });
      flows.push(...page.flows);
      if (page.next === undefined) return flows;
      after = page.next;
    }
  };
  const report = (id: DeviceId, given: FlowBatch) => store.flows.report(org, id, given, asServer);
  return { ...world, time, one, other, all, report };
}

test('every sum is on one page, newest first, of the devices and times that are asked for; a report that comes twice counts once', async () => {
  const { one, other, all, report } = await setUp();
  const many = Array.from({ length: 300 }, (_, far) => sum(far));
  const reports = [
    [one, batch(start, many)],
    [other, batch(start + minute, [sum(1, { verdict: 'admitted' }), sum(2, { direction: 'out', port: 80 })])],
    [one, batch(start + 2 * minute, [sum(1)])],
    [one, batch(start + 2 * minute, [sum(1)])],
  ] as const;
  await Promise.all(reports.slice(0, 3).map(([id, given]) => report(id, given)));
  await report(...reports[3]);
  const flows = await all();
  expect(flows).toHaveLength(303);
  expect(flows.map(({ until }) => until)).toEqual(
    flows
      .map(({ until }) => until)
      .toSorted()
      .toReversed(),
  );
  expect(new Set(flows.filter(({ device_id }) => device_id === one).map(({ far }) => far)).size).toBe(300);
  expect(await all({ devices: [one] })).toHaveLength(301);
  expect(await all({ devices: [one, other], since: new Date(start).toISOString() })).toHaveLength(3);
  expect(await all({ until: new Date(start).toISOString() })).toHaveLength(300);
  expect(await all({ devices: [] })).toEqual([]);
  const strangers = Array.from({ length: 300 }, () => randomUUID() as DeviceId);
  expect(await all({ devices: [...strangers, one] })).toHaveLength(301);
  expect(await all({ devices: strangers })).toEqual([]);
  const far = { family: 4, first: 0x0a00_0001n, last: 0x0a00_0001n } as const;
  expect(await all({ far: [far] })).toHaveLength(3);
  expect(await all({ verdict: 'admitted' })).toMatchObject([{ device_id: other, packets: 2 }]);
  expect(await all({ port: 80, direction: 'out' })).toHaveLength(1);
  expect(await all({ port: 81 })).toEqual([]);
});

test('after two hours the reports of an hour are one, with the same packets', async () => {
  const { store, org, url, time, one, all, report } = await setUp();
  for (let at = 1; at < 60; at += 1) await report(one, batch(start + at * minute, [sum(1), sum(2), sum(at + 10)]));
  time.now = start + 150 * minute;
  await report(one, batch(time.now, [sum(1)]));
  const total = (flows: readonly StoredFlow[]): number => flows.reduce((packets, flow) => packets + flow.packets, 0);
  const before = total(await all());
  // The first begins in the hour, and half of it is too young.
  await forgetOld(store);
  time.now += 60 * minute;
  await forgetOld(store);
  const flows = await all();
  expect(total(flows)).toBe(before);
  expect(flows).toHaveLength(1 + 2 + 59);
  expect(
    flows.find(({ far, since }) => far === 0x0a00_0001n && since < new Date(start + minute).toISOString()),
  ).toMatchObject({
    packets: 118,
    since: new Date(start).toISOString(),
    until: new Date(start + 59 * minute).toISOString(),
  });
  const [rows] = await query<{ count: string }>(url, 'SELECT count(*) FROM flows');
  expect(rows?.count).toBe('2');
  expect(await store.flows.coverage(org, new Date(start).toISOString())).toMatchObject([
    { device_id: one, day: '2026-11-18', all_seconds: 60 * 60, refused_seconds: 0 },
  ]);
});

test('what is too old goes, and of a device that has too much the oldest', async () => {
  const { store, org, time, one, all, report } = await setUp({ flowRetentionMs: 86_400_000, flowsPerOrganization: 5 });
  const at = (minutes: number, count: number) =>
    report(
      one,
      batch(
        start + minutes * minute,
        Array.from({ length: count }, (_, far) => sum(far)),
      ),
    );
  await at(0, 3);
  await at(60, 3);
  await at(61, 2);
  await forgetOld(store);
  expect(await all()).toHaveLength(5);
  expect((await all()).every(({ until }) => until > new Date(start).toISOString())).toBe(true);
  // Of a day that lost sums, nothing counts as observed.
  expect(await store.flows.coverage(org, new Date(start).toISOString())).toEqual([]);
  time.now = start + 86_400_000 + 60.5 * minute;
  await forgetOld(store);
  expect(await all()).toHaveLength(2);
});

test('coverage counts no minute twice, and keeps what was observed apart', async () => {
  const { store, org, one, report } = await setUp();
  const overlapping = batch(start + minute, [], { since: new Date(start - 30_000).toISOString() });
  await report(one, batch(start, []));
  await report(one, batch(start, []));
  await report(one, overlapping);
  await report(one, batch(start + 2 * minute, [], { observed: 'refused', not_recorded: 7 }));
  expect(await store.flows.coverage(org, new Date(start).toISOString(), [one])).toEqual([
    {
      device_id: one,
      day: '2026-11-18',
      through: new Date(start + 2 * minute).toISOString(),
      all_seconds: 120,
      refused_seconds: 60,
      not_recorded: 7,
    },
  ]);
});

const many = (count: number, more: Partial<FlowSum> = {}) => Array.from({ length: count }, (_, far) => sum(far, more));

test('of a minute a device has no more sums than one report may hold: the packets of the rest count as not recorded', async () => {
  const { store, org, one, other, all, report } = await setUp();
  expect(await report(one, batch(start, many(10_000)))).toEqual({ received: 10_000, refused: 20_000 });
  const beyond = await report(one, batch(start + 1, many(16_384)));
  expect(beyond.received).toBeLessThan(16_384 - 9_000);
  expect(beyond.refused).toBe(2 * beyond.received);
  expect(await report(one, batch(start + 2, many(300)))).toEqual({ received: 0, refused: 0 });
  expect(await report(other, batch(start + 2, many(300)))).toMatchObject({ received: 300 });
  expect(await report(one, batch(start + minute, many(300)))).toMatchObject({ received: 300 });
  expect(await all({ limit: 5_000, devices: [one] })).toHaveLength(10_000 + beyond.received + 300);
  expect(await store.flows.coverage(org, new Date(start).toISOString(), [one])).toMatchObject([
    { not_recorded: 2 * (16_384 - beyond.received + 300) },
  ]);
});

test('a report that comes again is counted once, also where its times were moved because the clock of the device is ahead', async () => {
  const { store, org, one, all, report } = await setUp();
  const reported = new Date(start + 60 * minute).toISOString();
  const given = { reported, not_recorded: 7 };
  expect(await report(one, batch(start, [sum(1)], given))).toEqual({ received: 1, refused: 2 });
  // At the same time, and later: then its times are others.
  const again = [0, 0, 1_500].map((later) => report(one, batch(start + later, [sum(1)], given)));
  expect(await Promise.all(again)).toEqual([1, 1, 1].map((received) => ({ received, refused: 0 })));
  expect(await all()).toHaveLength(1);
  expect(await store.flows.coverage(org, new Date(start).toISOString())).toMatchObject([
    { all_seconds: 60, not_recorded: 7 },
  ]);
});

test('one device cannot push out the traffic of others, nor what is known of when they were observed', async () => {
  const { store, org, one, other, all, report } = await setUp({ flowsPerOrganization: 1_000 });
  await report(other, batch(start, many(100)));
  for (let at = 1; at <= 10; at += 1) await report(one, batch(start + at * minute, many(256)));
  await forgetOld(store);
  expect(await all({ limit: 5_000, devices: [other] })).toHaveLength(100);
  expect(await all({ limit: 5_000, devices: [one] })).toHaveLength(3 * 256);
  const covered = await store.flows.coverage(org, new Date(start).toISOString());
  expect(covered.map(({ device_id }) => device_id)).toEqual([other]);
});

test('an hour with too many sums stays as it was reported, and is not looked at again', async () => {
  const { store, url, time, one, all, report } = await setUp();
  for (let at = 1; at < 4; at += 1) await report(one, batch(start + at * minute, [sum(1)]));
  await query(url, 'UPDATE flows SET sums = 262145 WHERE sums > 0');
  time.now = start + 240 * minute;
  await forgetOld(store);
  expect(await all()).toHaveLength(3);
  expect(await query(url, 'SELECT id FROM flows WHERE NOT is_hourly')).toEqual([]);
});

test('reports that come together fail only for the organization that the database refuses', async () => {
  const { store, url, one, owner, report } = await setUp();
  const { id: elsewhere } = await store.organizations.create(
    owner.user_id,
    { name: 'else', description: '' },
    asServer,
  );
  const { record } = await store.devices.create(elsewhere, owner, device(owner.user_id));
  await query(url, `ALTER TABLE flows ADD CHECK (org_id <> '${elsewhere}')`);
  const outcomes = await Promise.allSettled([
    report(one, batch(start, [sum(1)])),
    store.flows.report(elsewhere, record.id, batch(start, [sum(1)]), asServer),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
});
