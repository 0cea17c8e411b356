/** Proves the difference of two policies: exact against the oracle, packet by packet, and empty where the digests are equal. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { finished } from '../../../test/lib/finished.ts';
import { rounds } from '../../../test/lib/thorough.ts';
import { canonicalize } from '../canonicalize.ts';
import { decide } from '../decide.ts';
import { policyDigest } from '../digest/digest.ts';
import type { EffectivePolicy } from '../effective.ts';
import { Fleet } from '../fleet/fleet.ts';
import { device, guardedPolicy, packetOfFleet, peer } from '../fleet/fleet.fixture.ts';
import type { DeviceIdentity } from '../fleet/identity.ts';
import { resolvePolicy } from '../fleet/resolve.ts';
import { parseGroupId } from '../ids.ts';
import { policyIsolation } from '../isolation/isolation.ts';
import { isEcho } from '../match.ts';
import { normalizeRules } from '../normalize.ts';
import type { Packet } from '../packet.ts';
import { printRange } from '../address.ts';
import { hasAddress } from '../range.ts';
import type { Peer, PolicyGroup, SecurityRule, StoredRule } from '../rule.ts';
import { policyAt } from '../time/policy-at.ts';
import { worstPolicy } from '../worst-policies.fixture.ts';
import { isOtherPolicy, packetsAt } from './admitted.ts';
import { policyDifference, type PolicyDifference } from './policy-difference.ts';
import { PortAlgebra } from './port-algebra.ts';
import type { Traffic, TrafficSet } from './traffic.ts';

const groupId = parseGroupId('00000000-0000-4000-8000-000000000001');

const policyWith = (inbound: readonly SecurityRule[], outbound: readonly SecurityRule[] = []): EffectivePolicy => ({
  source: 'list',
  groups: [{ id: groupId, name: 'one', inbound: normalizeRules(inbound), outbound: normalizeRules(outbound) }],
});

const difference = (before: EffectivePolicy | undefined, after: EffectivePolicy | undefined): PolicyDifference =>
  finished(policyDifference(before, after));
const digestOf = (policy: EffectivePolicy): string => policyDigest(canonicalize(policy));

function holds(traffic: Traffic, packet: Packet): boolean {
  if (!hasAddress(packet.family === 4 ? traffic.v4 : traffic.v6, packet.remote)) return false;
  const { transport } = packet;
  switch (traffic.protocol) {
    case 'any':
      return true;
    case 'tcp':
    case 'udp':
      return (
        transport.kind === traffic.protocol &&
        traffic.ports?.some(({ from, to }) => from <= transport.dport && transport.dport <= to) === true
      );
    case 'icmp':
    case 'icmpv6':
      return isEcho(packet) && transport.kind === traffic.protocol;
    case 'other':
      return transport.kind !== 'tcp' && transport.kind !== 'udp' && !isEcho(packet);
    default:
      return traffic.protocol satisfies never;
  }
}

const countHolding = (set: TrafficSet, packet: Packet): number => set.filter((each) => holds(each, packet)).length;

const rangesOf = ({ v4, v6 }: Traffic): string[] => [
  ...v4.map((range) => printRange(4, range)),
  ...v6.map((range) => printRange(6, range)),
];
const written = (set: TrafficSet): string[] =>
  set.map((each) => {
    const ports = each.ports?.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`)).join();
    return [each.protocol, ...(ports === undefined ? [] : [ports]), ...rangesOf(each)].join(' ');
  });

/** The policy at a moment at which half of its rules with an end have ended. */
function atMoment(policy: EffectivePolicy, seed: number): EffectivePolicy {
  const ending = (rules: readonly StoredRule[]): readonly StoredRule[] =>
    rules.map((each, i) =>
      (i + seed) % 3 === 0 ? { ...each, expires_at: `2030-01-0${1 + ((i + seed) % 2)}T00:00:00Z` } : each,
    );
  const withEnds = (groups: readonly PolicyGroup[]): readonly PolicyGroup[] =>
    groups.map((group) => ({ ...group, inbound: ending(group.inbound), outbound: ending(group.outbound) }));
  const { guardrails } = policy;
  const timed = {
    ...policy,
    groups: withEnds(policy.groups),
    ...(guardrails && { guardrails: { forbid: withEnds(guardrails.forbid), require: withEnds(guardrails.require) } }),
  };
  return policyAt(timed, Date.parse('2030-01-01T12:00:00Z')).policy;
}

/** For each device of a fleet whether it is isolated, until when, and whom it still talks to; the first one is the device whose policy it is. */
const isolations = fc.array(
  fc.option(
    fc.record({
      until: fc.constantFrom(undefined, Date.parse('2030-01-01T00:00:00Z'), Date.parse('2030-01-02T00:00:00Z')),
      allow: fc.array(peer, { maxLength: 2 }),
    }),
    { nil: undefined, freq: 3 },
  ),
  { minLength: 8, maxLength: 8 },
);

/** The policy with what the isolated devices of the fleet mean for the first of them. */
function withIsolated(
  policy: EffectivePolicy,
  devices: readonly DeviceIdentity[],
  isolated: readonly ({ readonly until: number | undefined; readonly allow: readonly Peer[] } | undefined)[],
): EffectivePolicy {
  const all = devices.map((one, index): DeviceIdentity => {
    const found = isolated[index];
    if (found === undefined) return one;
    const { until, allow } = found;
    return { ...one, isolated: { allow, ...(until !== undefined && { until }) } };
  });
  const fleet = new Fleet(all);
  const [self] = all;
  const isolation = self && policyIsolation(self, fleet.isolated);
  return resolvePolicy({ ...policy, ...(isolation && { isolation }) }, fleet);
}

/** Of two moments of a fleet and of a policy. */
const change = fc.record({
  before: guardedPolicy,
  after: guardedPolicy,
  same: fc.boolean(),
  fleetBefore: fc.array(device, { maxLength: 8 }),
  fleetAfter: fc.array(device, { maxLength: 8 }),
  isolatedBefore: isolations,
  isolatedAfter: isolations,
  packets: fc.array(packetOfFleet, { minLength: 100, maxLength: 100 }),
});

describe('the difference of two policies', () => {
  it('holds exactly the packets on which both decide differently, each once: 10,000 random packets with peers, guardrails, isolated devices and rules that expired', () => {
    let [packets, isolatedRuns] = [0, 0];
    fc.assert(
      fc.property(change, ({ before, after, same, fleetBefore, fleetAfter, packets: asked, ...isolated }) => {
        const old = atMoment(withIsolated(before, fleetBefore, isolated.isolatedBefore), 0);
        const now = atMoment(withIsolated(same ? before : after, fleetAfter, isolated.isolatedAfter), same ? 1 : 0);
        if (old.isolation !== undefined || now.isolation !== undefined) isolatedRuns += 1;
        const found = difference(old, now);
        for (const packet of asked) {
          packets += 1;
          const [was, is] = [decide(old, packet).verdict, decide(now, packet).verdict];
          const { gained, lost } = found[packet.direction];
          expect([countHolding(gained, packet), countHolding(lost, packet)]).toEqual([
            Number(was === 'drop' && is === 'accept'),
            Number(was === 'accept' && is === 'drop'),
          ]);
        }
      }),
      { numRuns: 100 },
    );
    expect(packets).toBe(10_000);
    expect(isolatedRuns).toBeGreaterThan(20);
  });

  it('says that both mean the same exactly when their digests are equal, and then nothing is gained or lost', () => {
    fc.assert(
      fc.property(change, ({ before, after, same, fleetBefore, fleetAfter, ...isolated }) => {
        const old = withIsolated(before, fleetBefore, isolated.isolatedBefore);
        const now = withIsolated(same ? before : after, fleetAfter, isolated.isolatedAfter);
        const { isSame, inbound, outbound } = difference(old, now);
        expect(isSame).toBe(digestOf(old) === digestOf(now));
        expect(finished(isOtherPolicy(old, now))).toBe(!isSame);
        const entries = [inbound.gained, inbound.lost, outbound.gained, outbound.lost].flat();
        if (isSame) expect(entries).toEqual([]);
      }),
      { numRuns: rounds(40, 100) },
    );
  });

  it('is empty exactly when the digests are equal, where no guardrail forbids anything', () => {
    fc.assert(
      fc.property(change, ({ before, after, same, fleetBefore, fleetAfter }) => {
        const withoutForbid = ({ guardrails, ...policy }: EffectivePolicy): EffectivePolicy => ({
          ...policy,
          guardrails: { forbid: [], require: guardrails?.require ?? [] },
        });
        const old = resolvePolicy(withoutForbid(before), new Fleet(fleetBefore));
        const now = resolvePolicy(withoutForbid(same ? before : after), new Fleet(fleetAfter));
        const { inbound, outbound } = difference(old, now);
        const entries = [inbound.gained, inbound.lost, outbound.gained, outbound.lost].flat();
        expect(entries.length === 0).toBe(digestOf(old) === digestOf(now));
      }),
      { numRuns: rounds(40, 100) },
    );
  });

  const rule = (ip_protocol: 'tcp' | 'udp' | 'ip' | 'icmp', ports: [number, number], ...ip_ranges: string[]) => ({
    ip_protocol,
    from_port: ports[0],
    to_port: ports[1],
    ip_ranges,
  });
  const rows: readonly [string, EffectivePolicy, EffectivePolicy, readonly string[], readonly string[]][] = [
    [
      'keeps rules that overlap in addresses apart by their ports',
      policyWith([]),
      policyWith([rule('tcp', [443, 443], '10.0.0.0/8'), rule('tcp', [22, 22], '10.1.0.0/16')]),
      ['tcp 22 10.1.0.0/16', 'tcp 443 10.0.0.0/8'],
      [],
    ],
    [
      'merges ports and ranges that touch',
      policyWith([]),
      policyWith([rule('tcp', [80, 81], '10.0.0.0-10.0.0.3'), rule('tcp', [82, 90], '10.0.0.0/30')]),
      ['tcp 80-90 10.0.0.0/30'],
      [],
    ],
    [
      'shows a rule that moves as a gain and a loss, and what stays as neither',
      policyWith([rule('udp', [53, 53], '10.0.0.0/24')]),
      policyWith([rule('udp', [53, 53], '10.0.0.128/25', '10.0.1.0/25')]),
      ['udp 53 10.0.1.0/25'],
      ['udp 53 10.0.0.0/25'],
    ],
    [
      'calls every protocol any, and what is left of it by parts',
      policyWith([rule('tcp', [22, 22], '10.0.0.1')]),
      policyWith([rule('ip', [0, 0], '10.0.0.1', '10.0.0.2')]),
      ['any 10.0.0.2', 'tcp 0-21,23-65535 10.0.0.1', 'udp 0-65535 10.0.0.1', 'icmp 10.0.0.1', 'other 10.0.0.1'],
      [],
    ],
  ];
  it.each(rows)('%s', (_title, before, after, gained, lost) => {
    const { inbound, outbound } = difference(before, after);
    expect(written(inbound.gained)).toEqual(gained);
    expect(written(inbound.lost)).toEqual(lost);
    expect([...outbound.gained, ...outbound.lost]).toEqual([]);
  });

  it('shows that the first outbound rule closes everything else', () => {
    const { outbound } = difference(policyWith([]), policyWith([], [rule('tcp', [443, 443])]));
    expect(outbound.gained).toEqual([]);
    expect(written(outbound.lost)).toEqual([
      'tcp 0-442,444-65535 0.0.0.0/0 ::/0',
      'udp 0-65535 0.0.0.0/0 ::/0',
      'icmp 0.0.0.0/0',
      'icmpv6 ::/0',
      'other 0.0.0.0/0 ::/0',
    ]);
  });

  it('shows everything that a device admits as lost when the device is gone', () => {
    const { inbound, outbound } = difference(policyWith([rule('tcp', [22, 22], '10.0.0.1')]), undefined);
    expect(written(inbound.lost)).toEqual(['tcp 22 10.0.0.1']);
    expect(written(outbound.lost)).toEqual(['any 0.0.0.0/0 ::/0']);
  });

  it('stays exact where so many rules overlap that it lists them by address', () => {
    const some = Array.from({ length: 400 }, (_, i) =>
      rule('tcp', [1 + i * 40, 20_000 + i * 40], `10.0.${i >> 8}.${i & 255}/${24 + (i % 9)}`),
    );
    const [old, now] = [policyWith([]), policyWith(some)];
    const { inbound } = difference(old, now);
    for (let i = 0; i < 400; i += 1) {
      const packet: Packet = {
        direction: 'inbound',
        family: 4,
        remote: 0x0a00_0000n + BigInt((i * 7919) % 768),
        transport: { kind: 'tcp', dport: (i * 104_729) % 65_536 },
      };
      expect(countHolding(inbound.gained, packet)).toBe(Number(decide(now, packet).verdict === 'accept'));
    }
  });

  it('is worked out in short steps and told up to a size, however many rules overlap; what is left out is counted', () => {
    const policy = worstPolicy({
      groups: 5,
      rules: 1_000,
      ranges: 10,
      addresses: 'windows',
      ports: 'short',
      protocols: 'both',
      families: 'v4',
      directions: 1,
      seed: 1,
    });
    let found: PolicyDifference | undefined;
    /** Of each step the processor time of its quicker run: what else the machine does only makes a step longer. */
    const least: number[] = [];
    for (let run = 0; run < 2; run += 1) {
      const steps = policyDifference(undefined, policy);
      for (let count = 0; ; count += 1) {
        const begun = process.cpuUsage();
        const { done, value } = steps.next();
        const { user, system } = process.cpuUsage(begun);
        least[count] = Math.min(least[count] ?? Number.POSITIVE_INFINITY, user + system);
        if (done === true) {
          found = value;
          break;
        }
      }
    }
    if (found === undefined) throw new Error('no difference');
    const parts = [...found.inbound.gained, ...found.outbound.gained].reduce(
      (sum, { v4, v6, ports = [] }) => sum + v4.length + v6.length + ports.length,
      0,
    );
    // One entry may be half of it.
    expect(parts).toBeGreaterThan(100_000);
    expect(parts).toBeLessThan(300_000);
    const all = found.inbound.gained.length + found.outbound.gained.length + found.more.gained;
    expect(found.more).toEqual({ gained: all - found.inbound.gained.length - found.outbound.gained.length, lost: 0 });
    expect(found.more.gained).toBeGreaterThan(1_000);
    // Before, all of it was one step.
    expect(Math.max(...least)).toBeLessThan(least.reduce((sum, took) => sum + took, 0) / 10);
  });

  it('agrees with what is admitted at one address', () => {
    fc.assert(
      fc.property(change, ({ before, fleetBefore, isolatedBefore, packets }) => {
        const policy = withIsolated(before, fleetBefore, isolatedBefore);
        const ports = new PortAlgebra();
        for (const packet of packets.slice(0, 20)) {
          const { direction, family, remote: value, transport } = packet;
          const at = finished(packetsAt(policy, { direction, family, value }, ports));
          const admitted =
            transport.kind === 'tcp' || transport.kind === 'udp'
              ? ports.spans(at[transport.kind]).some(({ from, to }) => from <= transport.dport && transport.dport <= to)
              : isEcho(packet)
                ? at.echo
                : at.other;
          expect(admitted).toBe(decide(policy, packet).verdict === 'accept');
        }
      }),
      { numRuns: 50 },
    );
  });
});
