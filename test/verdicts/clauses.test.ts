/** Proves the clauses of reference 1.2 that speak of rules as data, each by name. Their twins with packets stand in `clauses.netns.test.ts`. */
import { describe, expect, test } from 'vitest';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { decide } from '../../src/policy/decide.ts';
import { readGroup } from '../../src/policy/group.ts';
import { normalizeRules } from '../../src/policy/normalize.ts';
import { defaultInboundRules, defaultOutboundRules, type SecurityRule } from '../../src/policy/rule.ts';
import { from, to } from './packets.ts';
import { allow, policyOfGroups } from './table.ts';

const verdictOf = (inbound: readonly SecurityRule[], packet: Parameters<typeof decide>[1]): string =>
  decide(policyOfGroups([{ inbound }]), packet).verdict;

const problemsOf = (rule: unknown): string[] =>
  readGroup({ group_name: 'g', inbound_rules: [rule] }, { mode: 'create' }).problems.map(
    ({ pointer, code }) => `${pointer} ${code}`,
  );

describe('the clauses', () => {
  test('reference 1.2 (4): the far end counts, whichever way the packet goes', () => {
    const policy = policyOfGroups([
      { inbound: [allow('tcp', 80, '10.0.0.1')], outbound: [allow('tcp', 80, '10.0.0.2')] },
    ]);
    expect(
      [from('10.0.0.1'), from('10.0.0.2'), to('10.0.0.1'), to('10.0.0.2')].map(
        (end) => decide(policy, end.tcp(80)).verdict,
      ),
    ).toEqual(['accept', 'drop', 'drop', 'accept']);
  });

  test('reference 1.2 (5): a rule has no field for source ports', () => {
    expect(problemsOf({ ...allow('tcp', 80), source_port: 53 })).toEqual([
      '/inbound_rules/0/source_port unknown_field',
    ]);
  });

  test('reference 1.2 (6): rules in any order, doubled or spread over groups are one policy', () => {
    const rules = [
      allow('tcp', [1, 100], '10.0.0.0/24'),
      allow('tcp', [50, 200], '10.0.0.7'),
      allow('udp', 53),
      allow('icmp'),
    ];
    const canonical = canonicalize(policyOfGroups([{ inbound: rules }]));
    expect(canonicalize(policyOfGroups([{ inbound: rules.toReversed() }]))).toEqual(canonical);
    expect(canonicalize(policyOfGroups([{ inbound: [...rules, ...rules] }]))).toEqual(canonical);
    const spread = policyOfGroups(rules.map((rule) => ({ inbound: [rule] })));
    const [first] = spread.groups;
    const together = { ...spread, groups: spread.groups.map((group) => ({ ...group, id: first?.id ?? group.id })) };
    expect(canonicalize(together)).toEqual(canonical);
  });

  test('reference 1.2 (6): a deny rule cannot be written', () => {
    expect(problemsOf({ ...allow('tcp', 80), action: 'deny' })).toEqual(['/inbound_rules/0/action unknown_field']);
  });

  test.each([
    [[0, 0], 0, 'accept'],
    [[0, 0], 65_535, 'accept'],
    [[80, 80], 80, 'accept'],
    [[80, 80], 81, 'drop'],
    [[80, 82], 79, 'drop'],
    [[80, 82], 80, 'accept'],
    [[80, 82], 82, 'accept'],
    [[80, 82], 83, 'drop'],
  ] as const)('reference 1.2 (7): ports %j and a packet to port %i: %s', (ports, port, verdict) => {
    expect(verdictOf([allow('tcp', ports)], from('10.0.0.1').tcp(port))).toBe(verdict);
  });

  test('reference 1.2 (8): empty and absent ip_ranges mean the same, and are shown as they were written', () => {
    const absent = { ip_protocol: 'tcp', from_port: 80, to_port: 80 } as const;
    const empty = { ...absent, ip_ranges: [] };
    for (const rule of [absent, empty]) {
      const { group } = readGroup({ group_name: 'g', inbound_rules: [rule] }, { mode: 'create' });
      expect(group?.inbound_rules).toEqual([rule]);
      for (const address of ['1.2.3.4', '2001:db8::1']) expect(verdictOf([rule], from(address).tcp(80))).toBe('accept');
    }
    expect(canonicalize(policyOfGroups([{ inbound: [empty] }]))).toEqual(
      canonicalize(policyOfGroups([{ inbound: [absent] }])),
    );
  });

  test('reference 1.2 (9): outbound is open while no group holds an outbound rule, and closed from the first one on', () => {
    expect(canonicalize(policyOfGroups([{ inbound: [] }, { inbound: [] }])).outbound.kind).toBe('open');
    expect(
      canonicalize(policyOfGroups([{ inbound: [] }, { inbound: [], outbound: [allow('udp', 53)] }])).outbound.kind,
    ).toBe('closed');
  });

  test('reference 1.2 (10): inbound without a rule admits what belongs to a connection, and nothing else', () => {
    const policy = policyOfGroups([{ inbound: [] }]);
    const packet = from('10.0.0.1').tcp(80);
    expect(
      [packet, { ...packet, state: 'established' } as const, { ...packet, state: 'related' } as const].map(
        (each) => decide(policy, each).verdict,
      ),
    ).toEqual(['drop', 'accept', 'accept']);
  });

  test('reference 1.2 (11): the default group as data', () => {
    expect(defaultInboundRules).toEqual(
      ['ipv4', 'ipv6', 'icmp', 'icmpv6'].map((ip_protocol) => ({
        ip_protocol,
        from_port: 0,
        to_port: 0,
        ip_ranges: [],
      })),
    );
    expect(defaultOutboundRules).toEqual([]);
  });

  test('reference 1.2 (14): overlapping ranges collapse into one set, for IPv4 and IPv6 alike', () => {
    const overlapping = allow(
      'tcp',
      80,
      '10.0.0.0/8',
      '10.1.0.0/16',
      '10.255.255.255-11.0.0.3',
      'fd00::/16',
      'fd00::1',
    );
    const collapsed = allow('tcp', 80, '10.0.0.0-11.0.0.3', 'fd00::/16');
    expect(canonicalize(policyOfGroups([{ inbound: [overlapping] }]))).toEqual(
      canonicalize(policyOfGroups([{ inbound: [collapsed] }])),
    );
  });

  test.each<[string, SecurityRule, SecurityRule[]]>([
    ['`ip` with ports becomes tcp and udp', allow('ip', [1, 9]), [allow('tcp', [1, 9]), allow('udp', [1, 9])]],
    ['`ip` without ports becomes both families', allow('ip'), [allow('ipv4'), allow('ipv6')]],
    [
      '`ip` with ranges becomes the families of its ranges',
      allow('ip', 0, '10.0.0.1', 'fd00::1'),
      [allow('ipv4', 0, '10.0.0.1'), allow('ipv6', 0, 'fd00::1')],
    ],
    ['`ip` with ranges of one family leaves the other out', allow('ip', 0, '10.0.0.1'), [allow('ipv4', 0, '10.0.0.1')]],
    ['`icmpv4` becomes icmp', allow('icmpv4'), [allow('icmp')]],
    ['`icmp` without ranges stays IPv4', allow('icmp'), [allow('icmp')]],
    [
      '`icmp` with IPv6 ranges becomes icmpv6 for those',
      allow('icmp', 0, '10.0.0.1', 'fd00::1'),
      [allow('icmp', 0, '10.0.0.1'), allow('icmpv6', 0, 'fd00::1')],
    ],
  ])('reference 1.2 (15): %s', (_, written, stored) => {
    expect(normalizeRules([written])).toEqual(stored);
    expect(normalizeRules(stored)).toEqual(stored);
  });
});
