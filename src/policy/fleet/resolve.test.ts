/** Proves what rules that name devices mean: resolved or asked of the fleet, by `decide` and by the canonical form. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAddress } from '../address.ts';
import { admits, canonicalize } from '../canonicalize.ts';
import { decide, type Decision } from '../decide.ts';
import type { EffectivePolicy } from '../effective.ts';
import { parseGroupId } from '../ids.ts';
import { UnresolvedPeers } from '../match.ts';
import { normalizeRules } from '../normalize.ts';
import type { Direction, Peer, PolicyGroup, SecurityRule } from '../rule.ts';
import { device, guardedPolicy, packetOfFleet } from './fleet.fixture.ts';
import { Fleet } from './fleet.ts';
import { deviceIdentity } from './identity.ts';
import { peersOf, resolvePolicy } from './resolve.ts';

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const gone = uuid(99);
const fleet = new Fleet([
  deviceIdentity({ id: uuid(11), tunnel_ip: '10.0.0.1/24', addresses: ['fd00::1'], labels: ['db', 'prod'] }),
  deviceIdentity({ id: uuid(12), tunnel_ip: '10.0.0.2/24', addresses: ['fd00::2'], labels: ['db'] }),
  deviceIdentity({ id: uuid(13), tunnel_ip: '10.0.0.3/24', labels: ['web'] }),
]);

const rule = (
  ip_protocol: SecurityRule['ip_protocol'],
  port: number,
  peers: readonly Peer[],
  ...ranges: string[]
): SecurityRule => ({
  ip_protocol,
  from_port: port,
  to_port: port,
  peers,
  ...(ranges.length > 0 && { ip_ranges: ranges }),
});
const group = (n: number, inbound: readonly SecurityRule[], outbound: readonly SecurityRule[] = []): PolicyGroup => ({
  id: parseGroupId(uuid(n)),
  name: `group ${n}`,
  inbound: normalizeRules(inbound),
  outbound: normalizeRules(outbound),
});
const db: readonly Peer[] = [{ labels: ['db'] }];
const anyRule = (ip_protocol: SecurityRule['ip_protocol']): SecurityRule => ({ ip_protocol, from_port: 0, to_port: 0 });

function ask(policy: EffectivePolicy, remote: string, port: number, direction: Direction = 'inbound'): Decision {
  const address = parseAddress(remote);
  if ('fault' in address) throw new Error(remote);
  const { family, value } = address;
  const packet = { direction, family, remote: value, transport: { kind: 'tcp', dport: port } } as const;
  const decision = decide(policy, packet, { fleet });
  const resolved = resolvePolicy(policy, fleet);
  expect(decide(resolved, packet).verdict).toBe(decision.verdict);
  expect(admits(canonicalize(resolved), packet)).toBe(decision.verdict === 'accept');
  return decision;
}

describe('a rule that names devices', () => {
  const policy: EffectivePolicy = { source: 'list', groups: [group(1, [rule('tcp', 22, db, '192.0.2.0/24')])] };

  it('admits the addresses of all devices that match, and its ranges, and says by which', () => {
    expect(ask(policy, '10.0.0.1', 22).reason).toMatchObject({ kind: 'rule', peer: { labels: ['db'] } });
    expect(ask(policy, 'fd00::2', 22).verdict).toBe('accept');
    expect(ask(policy, '192.0.2.9', 22).reason).not.toHaveProperty('peer');
    expect(ask(policy, '10.0.0.3', 22).verdict).toBe('drop');
  });

  it('admits nobody where no device matches, and still closes outbound', () => {
    const nobody: EffectivePolicy = {
      source: 'list',
      groups: [group(1, [], [rule('tcp', 22, [{ labels: ['none'] }])])],
    };
    expect(ask(nobody, '10.0.0.1', 22, 'outbound').reason).toEqual({ kind: 'no-rule' });
    expect(canonicalize(resolvePolicy(nobody, fleet)).outbound.kind).toBe('closed');
  });

  it('does not mean any address where its ranges are absent or empty', () => {
    for (const empty of [{}, { ip_ranges: [] }]) {
      const written = { ...rule('ip', 0, db), ...empty };
      expect(ask({ source: 'list', groups: [group(1, [written])] }, '198.51.100.1', 22).verdict).toBe('drop');
    }
  });

  it('tells that a device which it names is gone', () => {
    const stale: EffectivePolicy = { source: 'list', groups: [group(1, [rule('tcp', 22, [{ device_id: gone }])])] };
    expect(ask(stale, '10.0.0.1', 22).reason).toMatchObject({
      kind: 'no-rule',
      peerGone: [{ direction: 'inbound', index: 0, peer: { device_id: gone } }],
    });
    expect(ask(stale, '10.0.0.1', 23).reason).toEqual({ kind: 'no-rule' });
  });

  it('is never read as if its peers were not there', () => {
    expect(() => canonicalize(policy)).toThrow(UnresolvedPeers);
    const packet = { direction: 'inbound', family: 4, remote: 1n, transport: { kind: 'tcp', dport: 22 } } as const;
    expect(() => decide(policy, packet)).toThrow(UnresolvedPeers);
  });

  it.each<[SecurityRule, readonly object[]]>([
    [
      rule('ip', 0, db),
      [
        { ip_protocol: 'ipv4', peers: db },
        { ip_protocol: 'ipv6', peers: db },
      ],
    ],
    [
      rule('ip', 0, db, '10.9.0.0/16'),
      [
        { ip_protocol: 'ipv4', peers: db, ip_ranges: ['10.9.0.0/16'] },
        { ip_protocol: 'ipv6', peers: db, ip_ranges: [] },
      ],
    ],
    [
      rule('ip', 53, db),
      [
        { ip_protocol: 'tcp', peers: db },
        { ip_protocol: 'udp', peers: db },
      ],
    ],
    [rule('icmp', 0, db), [{ ip_protocol: 'icmp', peers: db }]],
    [
      rule('icmp', 0, db, 'fd09::/16'),
      [
        { ip_protocol: 'icmp', peers: db, ip_ranges: [] },
        { ip_protocol: 'icmpv6', ip_ranges: ['fd09::/16'] },
      ],
    ],
    [rule('icmpv4', 0, db), [{ ip_protocol: 'icmp', peers: db }]],
  ])('%j is stored with its peers on each part that can take their addresses', (written, stored) => {
    const { from_port, to_port } = written;
    const expected = stored.map((part) => ({ from_port, to_port, ...part }));
    expect(normalizeRules([written])).toEqual(expected);
    expect(normalizeRules(normalizeRules([written]))).toEqual(expected);
  });
});

describe('guardrails', () => {
  const open: EffectivePolicy = { source: 'default', groups: [group(1, [anyRule('ipv4'), anyRule('ipv6')])] };
  const forbid = group(2, [rule('tcp', 22, db)], [rule('tcp', 25, db)]);
  const require = group(3, [rule('tcp', 22, [{ all_devices: true }])], [rule('tcp', 443, [{ labels: ['web'] }])]);

  it('forbid whatever a group admits, and leave the rest as it is', () => {
    const policy = { ...open, guardrails: { forbid: [forbid], require: [] } };
    expect(ask(policy, '10.0.0.1', 22)).toMatchObject({
      verdict: 'drop',
      reason: { kind: 'forbid', peer: { labels: ['db'] } },
    });
    expect(ask(policy, '10.0.0.1', 23).verdict).toBe('accept');
    expect(ask(policy, '10.0.0.2', 25, 'outbound').verdict).toBe('drop');
    expect(ask(policy, '10.0.0.3', 25, 'outbound').reason).toEqual({ kind: 'open' });
  });

  it('require whatever no group admits, except what is forbidden, and neither opens nor closes the rest', () => {
    const closed: EffectivePolicy = {
      source: 'list',
      groups: [group(1, [])],
      guardrails: { forbid: [forbid], require: [require] },
    };
    expect(ask(closed, '10.0.0.3', 22).reason).toMatchObject({ kind: 'require', group: { name: 'group 3' } });
    expect(ask(closed, '10.0.0.1', 22).reason).toMatchObject({ kind: 'forbid' });
    expect(ask(closed, '10.0.0.3', 23).verdict).toBe('drop');
    expect(ask(closed, '10.0.0.9', 80, 'outbound').reason).toEqual({ kind: 'open' });
  });

  it('let packets of connections pass that were admitted before', () => {
    const policy = resolvePolicy({ ...open, guardrails: { forbid: [forbid], require: [] } }, fleet);
    const packet = {
      direction: 'inbound',
      family: 4,
      remote: 0x0a00_0001n,
      transport: { kind: 'tcp', dport: 22 },
      state: 'established',
    } as const;
    expect(decide(policy, packet).verdict).toBe('accept');
    expect(admits(canonicalize(policy), packet)).toBe(true);
  });

  it('that match nobody leave no trace in the canonical form', () => {
    const nobody = group(2, [rule('tcp', 22, [{ labels: ['none'] }])]);
    const policy = resolvePolicy({ ...open, guardrails: { forbid: [nobody], require: [] } }, fleet);
    expect(canonicalize(policy)).toEqual(canonicalize(open));
  });
});

describe('on random fleets, groups and guardrails', () => {
  it('decide asks the fleet, decide reads what was resolved, and the canonical form all give one verdict', () => {
    const some = fc.array(packetOfFleet, { minLength: 10, maxLength: 20 });
    fc.assert(
      fc.property(
        fc.array(device, { maxLength: 12 }),
        guardedPolicy,
        some,
        fc.boolean(),
        (devices, policy, packets, neighbourDiscovery) => {
          const drawn = new Fleet(devices);
          const resolved = resolvePolicy(policy, drawn);
          const canonical = canonicalize(resolved);
          for (const packet of packets) {
            const { verdict } = decide(policy, packet, { fleet: drawn, neighbourDiscovery });
            expect(decide(resolved, packet, { neighbourDiscovery }).verdict).toBe(verdict);
            expect(admits(canonical, packet, { neighbourDiscovery })).toBe(verdict === 'accept');
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('the peers of a policy are named once each', () => {
    const policy: EffectivePolicy = {
      source: 'list',
      groups: [group(1, [rule('tcp', 22, [{ labels: ['a', 'b'] }])], [rule('tcp', 22, [{ labels: ['b', 'a'] }])])],
      guardrails: { forbid: [group(2, [rule('tcp', 22, db)])], require: [] },
    };
    expect(peersOf(policy)).toHaveLength(2);
  });
});
