/** Proves to whom packets are counted: to one group exactly, by what it says of protocol and port, then by the device's order. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rounds } from '../../test/lib/thorough.ts';
import { packet as anyPacket, policy as anyPolicy } from './arbitrary.fixture.ts';
import type { Addresses, CanonicalPolicy } from './canonical.ts';
import { canonicalize } from './canonicalize.ts';
import { decide, rulesOf } from './decide.ts';
import type { EffectivePolicy } from './effective.ts';
import type { GroupId } from './ids.ts';
import { isAnyPort, isEcho, ruleAdmits } from './match.ts';
import type { Packet } from './packet.ts';
import { hasAddress, holdsAll, mergeRanges } from './range.ts';
import type { StoredRule } from './rule.ts';

/** From what says the most about protocol and port to what says the least. */
const kinds: readonly ((rule: StoredRule) => boolean)[] = [
  (rule) => rule.ip_protocol.startsWith('ipv') && isAnyPort(rule),
  (rule) => !rule.ip_protocol.startsWith('ipv') && isAnyPort(rule),
  (rule) => !isAnyPort(rule),
];

/** By the rules as written: the first kind of rule that admits the packet, and of that kind the first group. */
function byRules({ groups }: EffectivePolicy, packet: Packet): GroupId | undefined {
  for (const isKind of kinds) {
    const found = groups.find((group) =>
      rulesOf(group, packet.direction).some((rule) => isKind(rule) && ruleAdmits(rule, packet)),
    );
    if (found !== undefined) return found.id;
  }
  return undefined;
}

/** By the canonical form, as the compiled rules look packets up. */
function byShares(policy: CanonicalPolicy, packet: Packet): GroupId | undefined {
  const direction = policy[packet.direction];
  if (direction.kind === 'open') return undefined;
  const { transport } = packet;
  const asked: Addresses[] = [direction.any];
  if (isEcho(packet)) asked.push(direction.echo);
  if (transport.kind === 'tcp' || transport.kind === 'udp') {
    const { anyPort, ports } = direction[transport.kind];
    asked.push(anyPort);
    if (ports.kind !== 'intervals') throw new Error('these policies are small');
    const { dport } = transport;
    asked.push(
      ...ports.intervals.flatMap(({ from, to, addresses }) => (from <= dport && dport <= to ? addresses : [])),
    );
  }
  return asked
    .flatMap(({ shares }) => shares ?? [])
    .find(({ v4, v6 }) => hasAddress(packet.family === 4 ? v4 : v6, packet.remote))?.group;
}

const isUncounted = (policy: CanonicalPolicy, { direction }: Packet): boolean => {
  const part = policy[direction];
  return part.kind === 'open' || (part.any.shares === undefined && part.any.v4.length + part.any.v6.length > 0);
};

describe('the shares of groups', () => {
  it('give every admitted packet to one group, as the rules do, and none to a group that does not admit it', () => {
    fc.assert(
      fc.property(anyPolicy, fc.array(anyPacket, { minLength: 20, maxLength: 20 }), (policy, packets) => {
        const canonical = canonicalize(policy);
        for (const packet of packets) {
          if (isUncounted(canonical, packet)) continue;
          expect(byShares(canonical, packet)).toBe(byRules(policy, packet));
          expect(byShares(canonical, packet) !== undefined).toBe(decide(policy, packet).verdict === 'accept');
        }
      }),
      { numRuns: rounds(200, 1_000) },
    );
  });
});

describe('a set of ranges', () => {
  it('holds all of another exactly if both together are no more than it', () => {
    const set = fc
      .array(
        fc.tuple(fc.bigInt(0n, 40n), fc.bigInt(0n, 6n)).map(([first, more]) => ({ first, last: first + more })),
        { maxLength: 6 },
      )
      .map(mergeRanges);
    fc.assert(
      fc.property(set, set, (a, b) => {
        expect(holdsAll(a, b)).toBe(JSON.stringify(mergeRanges([...a, ...b]), show) === JSON.stringify(a, show));
      }),
    );
  });
});

const show = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value);
