/** Proves that devices that share a policy have the same one, whatever of isolations and trials tells them apart. */
import { expect, it } from 'vitest';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { organizationOf, policiesOn, policyOn } from '../../organization/of-records.ts';
import { addressOf, reach, type Endpoint } from './reachability.ts';

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const device = (n: number, more: object = {}): Device =>
  ({ id: uuid(n), hostname: `d${n}`, tunnel_ip: `10.0.0.${n}`, ...more }) as unknown as Device;
const group = (n: number, more: object = {}): SecurityGroup =>
  ({
    id: uuid(n),
    group_name: `g${n}`,
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22 }],
    ...more,
  }) as unknown as SecurityGroup;
const now = Date.parse('2026-06-01T00:00:00Z');
const idsOf = (devices: readonly Device[]): readonly string[] => devices.map(({ id }) => id);
const normal = [group(91, { is_default: true })];

/** What every pair answers, as "from → to". */
function answers(
  devices: readonly Device[],
  groups: readonly SecurityGroup[],
  port = 22,
): Readonly<Record<string, string>> {
  const model = organizationOf(devices, groups);
  const policies = policiesOn(model, idsOf(devices), now);
  const ends = devices.map((one, index): Endpoint => {
    const policy = policies[index] ?? { missing: 'default' };
    expect(policy).toEqual(policyOn(organizationOf([...devices], [...groups]), one.id, now));
    return { device: one, policy, address: addressOf(one) };
  });
  return Object.fromEntries(
    ends.flatMap((from) =>
      ends
        .filter((to) => to !== from)
        .map((to) => [`${from.device.hostname} ${to.device.hostname}`, reach(from, to, { kind: 'tcp', port }).kind]),
    ),
  );
}

it('tells an isolated device, one that it allows and others apart, in any order', () => {
  const isolated = { since: '2026-01-01T00:00:00Z', by: uuid(80), reason: 'test', allow: [{ labels: ['lab'] }] };
  const devices = [device(1, { isolated }), device(2, { labels: ['lab'] }), device(3), device(4)];
  for (const order of [devices, devices.toReversed()]) {
    const found = answers(order, normal);
    expect(Object.keys(found).filter((pair) => found[pair] === 'no')).toHaveLength(4);
    expect([found['d1 d2'], found['d2 d1'], found['d3 d2'], found['d3 d4']]).toEqual(['yes', 'yes', 'yes', 'yes']);
    expect([found['d1 d3'], found['d3 d1'], found['d1 d4'], found['d4 d1']]).toEqual(['no', 'no', 'no', 'no']);
  }
  // Devices that nothing tells apart share the policy.
  const [, , three, four] = policiesOn(organizationOf(devices, normal), idsOf(devices), now);
  expect(three).toBe(four);
});

it('tells apart devices that try a change of a group from those that do not, and a device whose own list is on trial', () => {
  const ends_at = '2999-01-01T00:00:00Z';
  const id = uuid(99);
  const before = { group_name: 'g92', inbound_rules: [], outbound_rules: [], applies_to: [] };
  const tried = group(92, { trial: { id, ends_at, scope: [{ labels: ['canary'] }], before } });
  const web = [tried.id];
  const devices = [
    device(1, { security_groups: web, labels: ['canary'] }),
    device(2, { security_groups: web }),
    device(3, { security_groups: web, trial: { id, ends_at, before: { security_groups: [] } } }),
  ];
  for (const order of [devices, devices.toReversed()]) {
    const found = answers(order, [group(91, { is_default: true }), tried]);
    expect([found['d2 d1'], found['d1 d2'], found['d1 d3']]).toEqual(['yes', 'no', 'no']);
  }
});
