/** Proves what an explanation names besides the verdict: rules that a guardrail makes void, and rules about deleted devices. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { parseAddress } from '../../policy/address.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { parseDeviceId, parseGroupId, parseOrganizationId } from '../../policy/ids.ts';
import type { StoredRule } from '../../policy/rule.ts';
import type { GroupRecord } from '../store/data/records.ts';
import type { Survey } from '../convergence/contract.ts';
import { explain } from './explain.ts';
import { GroupRules } from '../../organization/group-rules.ts';
import { processorMs, processSlices, type SlicedWork } from '../scheduling/time-slices.ts';
import { workLimits, WorkShares } from '../scheduling/work-budget.ts';

const idOf = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
const org = parseOrganizationId(idOf(1));
const web = parseDeviceId(idOf(2));
const gone = parseDeviceId(idOf(3));
const [open, never] = [parseGroupId(idOf(11)), parseGroupId(idOf(12))];

const tcp = (port: number, more: Partial<StoredRule> = {}): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const groupOf = (id: GroupRecord['id'], inbound_rules: readonly StoredRule[], more: object = {}): GroupRecord => ({
  id,
  group_name: 'g',
  group_description: '',
  org_id: org,
  inbound_rules,
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
  revision: 1,
  ...more,
});

async function sideAt(
  port: number,
  records: readonly GroupRecord[],
  {
    work = processSlices(),
    onRead = () => Promise.resolve(),
  }: { work?: SlicedWork; onRead?: () => Promise<void> } = {},
) {
  const identity = deviceIdentity({ id: web, tunnel_ip: '100.64.0.1' });
  const survey: Survey = {
    revision: 7,
    devices: new Map([[web, { id: web, hostname: 'web', identity }]]),
    isolationOn: () => undefined,
    groupsOn: () => records.map((record) => ({ id: record.id, name: '', rules: new GroupRules(record) })),
    enforcementStatuses: () => Promise.resolve([{ device_id: web, hostname: 'web', in_force: 'yes', online: true }]),
  };
  const stranger = parseAddress('203.0.113.9');
  if ('fault' in stranger) throw new Error('that is an address');
  const asked = {
    from: { address: stranger },
    to: { device: web },
    transport: () => ({ kind: 'tcp', dport: port }) as const,
  };
  const answer = await explain(org, asked, {
    now: () => 0,
    work,
    convergence: {
      survey: () => Promise.resolve(survey),
      read: () => Promise.reject(new Error('not asked')),
      converge: () => Promise.reject(new Error('not asked')),
      count: () => Promise.reject(new Error('not asked')),
    },
    groups: {
      find: async () => {
        await onRead();
        return records.map((record) => ({ id: record.id, revision: 1, record, json: JSON.stringify(record) }));
      },
    },
  });
  return typeof answer === 'string' ? answer : answer.sides[0];
}

const peer = { device_id: gone };
const group = groupOf(open, [
  tcp(22),
  tcp(23),
  tcp(23, { ip_ranges: ['203.0.113.0/24'] }),
  tcp(81, { peers: [peer] }),
  tcp(23, { peers: [peer] }),
]);
const guardrail = groupOf(never, [tcp(23)], { guardrail: 'forbid', applies_to: [{ all_devices: true }] });

test('rules of groups that would admit what a guardrail forbids are named by their places', async () => {
  expect(await sideAt(23, [group, guardrail])).toMatchObject({
    verdict: 'refused',
    reason: 'forbid',
    group_id: never,
    void_rules: [
      { group_id: open, rule: 1 },
      { group_id: open, rule: 2 },
    ],
  });
  const admitted = await sideAt(22, [group, guardrail]);
  expect(admitted).toMatchObject({ verdict: 'allowed', reason: 'rule', group_id: open });
  expect(admitted).not.toHaveProperty('void_rules');
  expect(await sideAt(23, [guardrail])).not.toHaveProperty('void_rules');
});

test('a rule about such packets whose device is gone is named where nothing admits it, and only there', async () => {
  expect(await sideAt(81, [group])).toMatchObject({
    verdict: 'refused',
    reason: 'no-rule',
    peer_gone: [{ group_id: open, rule: 3, peer }],
  });
  const other = await sideAt(82, [group]);
  expect(other).toMatchObject({ reason: 'no-rule' });
  expect(other).not.toHaveProperty('peer_gone');
  expect(await sideAt(22, [group])).not.toHaveProperty('peer_gone');
});

test('a rule that has expired admits nothing, and is named where it would have admitted the packet', async () => {
  const [over, later] = ['1969-12-31T23:00:00Z', '1970-01-01T01:00:00Z'];
  const timed = groupOf(open, [tcp(80), tcp(22, { expires_at: over }), tcp(443, { expires_at: later })]);
  expect(await sideAt(22, [timed])).toMatchObject({
    verdict: 'refused',
    reason: 'no-rule',
    expired: [{ group_id: open, rule: 1, expires_at: over }],
  });
  expect(await sideAt(443, [timed])).toMatchObject({ verdict: 'allowed', rule: tcp(443, { expires_at: later }) });
  expect(await sideAt(25, [timed])).not.toHaveProperty('expired');
});

test('of twenty explanations that one user asks for at once, two are worked out at a time', async () => {
  const shares = new WorkShares({
    slices: processSlices(),
    monotonic: () => performance.now(),
    processorMs,
    limits: workLimits(30_000),
  });
  let [reading, most] = [0, 0];
  const onRead = async (): Promise<void> => {
    reading += 1;
    most = Math.max(most, reading);
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    reading -= 1;
  };
  const asked = Array.from({ length: 20 }, async () => {
    const work = shares.budgetFor({ user: 'u', organization: org });
    const side = await sideAt(22, [group], { work, onRead });
    work.end();
    return side;
  });
  for (const side of await Promise.all(asked)) expect(side).toMatchObject({ verdict: 'allowed' });
  expect(most).toBe(2);
});
