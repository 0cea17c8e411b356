/** Proves what a device may say of rules: only of its own groups, only rules that there are, at the cost of looking at the organization every ten seconds. */
import { expect, test } from 'vitest';
import { parseDeviceId, parseGroupId, parseOrganizationId } from '../../policy/ids.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationChange,
} from '../../organization/organization.ts';
import { modelGroup } from '../../organization/organization.fixture.ts';
import { processSlices } from '../scheduling/time-slices.ts';
import { WorkRefused } from '../scheduling/work-budget.ts';
import { ClaimedRules } from './claimed-rules.ts';

const org = parseOrganizationId('00000000-0000-4000-8000-000000000001');
const device = parseDeviceId('00000000-0000-4000-8000-0000000000d1');
const other = parseDeviceId('00000000-0000-4000-8000-0000000000d2');
const tcp = (port: number): StoredRule => ({ ip_protocol: 'tcp', from_port: port, to_port: port });
const group = (n: number, ports: readonly number[], more: Partial<PolicyGroup> = {}): PolicyGroup => ({
  id: parseGroupId(`00000000-0000-4000-8000-0000000000a${n}`),
  name: `group ${n}`,
  inbound: ports.map(tcp),
  outbound: [],
  ...more,
});
const stored = (record: PolicyGroup): OrganizationChange => ({
  kind: 'group',
  id: record.id,
  group: modelGroup(record),
});
const having = (id: typeof device, ...groups: readonly PolicyGroup[]): OrganizationChange => ({
  kind: 'device',
  id,
  device: { id, hostname: 'web', list: groups.map((one) => one.id), identity: { id, labels: ['db'], addresses: [] } },
});
const claim = (of: PolicyGroup, port: number) => ({ group_id: of.id, rule_id: ruleIdOf('inbound', tcp(port)) });

/** An organization in memory that counts how often it is read. */
function open(changes: readonly OrganizationChange[], { isKept = true, isRefused = false } = {}) {
  const world = { now: 0, reads: 0, entered: 0, snapshot: overlay(emptyOrganization, changes, { revision: 1 }) };
  let kept: { readonly snapshot: Organization; readonly at: number } | undefined;
  const claims = new ClaimedRules({
    slices: processSlices(),
    monotonic: () => world.now,
    enter: async () => {
      if (isRefused) throw new WorkRefused('too_costly');
      world.entered += 1;
      return () => (world.entered -= 1);
    },
    snapshots: {
      recent: (_org, withinMs) => (kept && world.now - kept.at <= withinMs ? { ...kept.snapshot } : undefined),
      read: async () => {
        world.reads += 1;
        if (isKept) kept = { snapshot: world.snapshot, at: world.now };
        return world.snapshot;
      },
    },
  });
  return Object.assign(world, { claims });
}

const web = group(1, [80, 443]);
const database = group(2, [5432]);
const byLabel = group(3, [9100], { appliesTo: [{ labels: ['db'] }] });
const forbid = group(4, [23], { guardrail: 'forbid', appliesTo: [{ all_devices: true }] });
const everything = [
  stored(web),
  stored(database),
  stored(byLabel),
  stored(forbid),
  having(device, web),
  having(other, database),
];

test('rules of groups that the device has count, by list, by label and as guardrails; those of others and invented ones do not', async () => {
  const { claims } = open(everything);
  const rules = [
    claim(web, 443),
    claim(byLabel, 9100),
    claim(forbid, 23),
    claim(database, 5432),
    claim(web, 22),
    { group_id: web.id, rule_id: 'f'.repeat(32) },
    { group_id: web.id.toUpperCase(), rule_id: claim(web, 80).rule_id },
  ];
  const groups = [web.id, database.id, forbid.id, '00000000-0000-4000-8000-0000000000ff'];
  const known = await claims.read(org, device, { rules, groups });
  expect(known?.rules.map((one) => one?.group)).toEqual([
    web.id,
    byLabel.id,
    forbid.id,
    undefined,
    undefined,
    undefined,
    web.id,
  ]);
  expect(known?.groups).toEqual([web.id, forbid.id]);
  const stranger = parseDeviceId('00000000-0000-4000-8000-0000000000d9');
  expect(await claims.read(org, stranger, { rules, groups })).toEqual({
    groups: [],
    rules: rules.map(() => undefined),
  });
  expect(await claims.read(org, device, { rules })).toBeUndefined();
});

test('both states of a group count while a change of it is on trial: an agent may be in either', async () => {
  const before = { ...web, inbound: [tcp(22)], outbound: [], appliesTo: [], mode: 'enforce' as const };
  const trial = { id: 'trial', ends_at: '2026-11-18T12:00:00Z', before };
  const { claims } = open([stored({ ...web, trial }), having(device, web)]);
  const known = await claims.read(org, device, { rules: [claim(web, 443), claim(web, 22)], groups: [web.id] });
  expect(known?.rules.map((one) => one?.group)).toEqual([web.id, web.id]);
});

test('reports of ten seconds look at the organization once; what is new is seen at once where a report names it, and what is gone after these ten seconds', async () => {
  const world = open(everything);
  const { claims } = world;
  const report = { rules: [claim(web, 443)], groups: [web.id] };
  for (let n = 0; n < 100; n += 1) await claims.read(org, device, report);
  expect([world.reads, world.entered]).toEqual([1, 0]);
  world.snapshot = overlay(world.snapshot, [stored(group(1, [443, 8080])), having(other, web, database)]);
  const added = { rules: [claim(web, 8080)], groups: [web.id] };
  expect((await claims.read(org, device, added))?.rules).toEqual([{ group: web.id, rule: claim(web, 8080).rule_id }]);
  expect((await claims.read(org, other, report))?.groups).toEqual([web.id]);
  expect(world.reads).toBe(2);
  // The group is taken from the device.
  world.snapshot = overlay(world.snapshot, [having(device)]);
  world.now = 10_001;
  expect(await claims.read(org, device, report)).toEqual({ groups: [], rules: [undefined] });
});

test.each([
  ['cannot be kept', { isKept: false }],
  ['has no room', { isRefused: true }],
])(
  'an organization that %s is not loaded for each report: for minutes, nothing is known of its rules',
  async (_, options) => {
    const world = open(everything, options);
    const report = { rules: [claim(web, 443)], groups: [web.id] };
    const first = await world.claims.read(org, device, report);
    expect(first === undefined).toBe('isRefused' in options);
    for (let n = 0; n < 10; n += 1) expect(await world.claims.read(org, device, report)).toBeUndefined();
    expect(world.reads).toBe('isRefused' in options ? 0 : 1);
    world.now = 300_001;
    await world.claims.read(org, device, report);
    expect(world.reads).toBe('isRefused' in options ? 0 : 2);
  },
);

test('many rules are looked at in pauses, and once for all who ask', async () => {
  const many = group(
    1,
    Array.from({ length: 50_000 }, (_, n) => n + 1),
  );
  const { claims } = open([stored(many), having(device, many)]);
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  const report = { rules: [claim(many, 50_000)], groups: [many.id] };
  const known = await Promise.all(Array.from({ length: 20 }, () => claims.read(org, device, report)));
  isDone = true;
  for (const one of known) expect(one?.rules[0]?.group).toBe(many.id);
  expect(turns).toBeGreaterThan(5);
});
