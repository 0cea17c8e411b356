/** Proves which far ends are looked at when devices join and leave: those that may have lost something, or no list at all. */
import { describe, expect, test } from 'vitest';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { resolvePolicy } from '../../policy/fleet/resolve.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { groupOf } from './agent.fixture.ts';
import { remotesOfChange } from './membership-change.ts';

const rule = (label: string): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: 22,
  to_port: 22,
  peers: [{ labels: [label] }],
});
const policy: EffectivePolicy = {
  source: 'list',
  groups: [groupOf(1, [rule('app')], [rule('db')])],
  guardrails: { forbid: [groupOf(2, [rule('bad')])], require: [] },
};

/** The policy before and after one change of a fleet of neighbours. */
function around(change: (fleet: Fleet) => void, size = 4): readonly [EffectivePolicy, EffectivePolicy] {
  const fleet = new Fleet(
    Array.from({ length: size }, (_, i) =>
      deviceIdentity({ id: `d${i}`, tunnel_ip: `100.64.0.${i + 1}`, labels: ['app'] }),
    ),
  );
  const before = resolvePolicy(policy, fleet);
  change(fleet);
  return [before, resolvePolicy(policy, fleet)];
}

const farEndsOf = (...change: Parameters<typeof remotesOfChange>): readonly string[] =>
  (remotesOfChange(...change) ?? [{ direction: 'inbound', address: 'anybody' }])
    .map(({ direction, address }) => `${direction} ${address}`)
    .toSorted();

describe('the far ends of a change', () => {
  test.each<[string, (fleet: Fleet) => void, readonly string[]]>([
    ['who leaves, out of neighbours', (fleet) => void fleet.delete('d1'), ['inbound 100.64.0.2']],
    [
      'nobody where one joins',
      (fleet) => void fleet.set(deviceIdentity({ id: 'n', addresses: ['fd7f::9', '10.0.0.9'], labels: ['db'] })),
      [],
    ],
    [
      'who moves from one label to another',
      (fleet) => void fleet.set(deviceIdentity({ id: 'd2', tunnel_ip: '100.64.0.3', labels: ['db'] })),
      ['inbound 100.64.0.3'],
    ],
    [
      'whom a guardrail comes to name',
      (fleet) => void fleet.set(deviceIdentity({ id: 'd0', tunnel_ip: '100.64.0.1', labels: ['app', 'bad'] })),
      ['inbound 100.64.0.1'],
    ],
    [
      'nobody where a guardrail lets go of one',
      (fleet) => {
        fleet.set(deviceIdentity({ id: 'd0', tunnel_ip: '100.64.0.1', labels: ['app', 'bad'] }));
        fleet.set(deviceIdentity({ id: 'd0', tunnel_ip: '100.64.0.1', labels: ['app'] }));
      },
      [],
    ],
    ['nobody where nothing changes', () => {}, []],
  ])('are %s', (_, change, remotes) => {
    expect(farEndsOf(...around(change))).toEqual(remotes);
  });

  test('tell by which rules the device was named: those of connections that it began, or answered', () => {
    const both = deviceIdentity({ id: 'b', tunnel_ip: '10.0.0.1', labels: ['app', 'db'] });
    const fleet = new Fleet([both]);
    const before = resolvePolicy(policy, fleet);
    fleet.set({ ...both, labels: ['app'] });
    expect(farEndsOf(before, resolvePolicy(policy, fleet))).toEqual(['outbound 10.0.0.1']);
    fleet.delete('b');
    expect(farEndsOf(before, resolvePolicy(policy, fleet))).toEqual(['inbound 10.0.0.1', 'outbound 10.0.0.1']);
  });

  test('are the same where the addresses were read from the disk and nothing of their history is known', () => {
    const [before, after] = around((fleet) => void fleet.delete('d1'));
    const plain = (group: PolicyGroup): PolicyGroup => ({
      ...group,
      inbound: group.inbound.map((each) => ({
        ...each,
        ...(each.members && { members: { v4: each.members.v4, v6: each.members.v6 } }),
      })),
    });
    expect(farEndsOf({ ...before, groups: before.groups.map(plain) }, after)).toEqual(['inbound 100.64.0.2']);
  });

  test('are not told one by one where they are many', () => {
    const [before, after] = around((fleet) => {
      for (let i = 0; i < 20; i += 1) fleet.delete(`d${i}`);
    }, 40);
    expect(remotesOfChange(before, after)).toBeUndefined();
  });

  test('may be anybody where more than the devices changed', () => {
    const [before] = around(() => {});
    expect(remotesOfChange(before, { ...before, groups: [groupOf(1, [rule('app')], [])] })).toBeUndefined();
    expect(remotesOfChange(before, { ...before, groups: [] })).toBeUndefined();
    expect(remotesOfChange(before, { source: 'list', groups: before.groups })).toBeUndefined();
    expect(remotesOfChange(undefined, before)).toBeUndefined();
  });
});
