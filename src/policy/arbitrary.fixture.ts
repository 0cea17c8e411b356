/** Owns the random rules, groups and packets that property tests draw from: mostly near each other, so that they overlap. */
import fc from 'fast-check';
import { printAddress, printRange } from './address.ts';
import type { EffectivePolicy } from './effective.ts';
import { parseGroupId } from './ids.ts';
import { normalizeRules } from './normalize.ts';
import type { Packet, Transport } from './packet.ts';
import { lastAddress } from './range.ts';
import type { Family, PolicyGroup, Protocol, SecurityRule } from './rule.ts';

const family = fc.constantFrom<Family>(4, 6);

/** Half of all addresses lie in one small neighbourhood, so that rules and packets meet. */
export const address = (of: Family): fc.Arbitrary<bigint> => {
  const base = of === 4 ? 0x0a00_0000n : 0xfd00n << 112n;
  return fc.oneof(
    fc.bigInt({ min: 0n, max: 300n }).map((offset) => base + offset),
    fc.bigInt({ min: 0n, max: lastAddress(of) }),
    fc.constantFrom(0n, lastAddress(of)),
  );
};

export const rangeText = (of: Family): fc.Arbitrary<string> =>
  fc.oneof(
    address(of).map((value) => printAddress(of, value)),
    fc
      .tuple(address(of), fc.integer({ min: 0, max: of === 4 ? 32 : 128 }))
      .map(([value, length]) => `${printAddress(of, value)}/${length}`),
    fc
      .tuple(address(of), address(of))
      .map(([a, b]) => `${printAddress(of, a < b ? a : b)}-${printAddress(of, a < b ? b : a)}`),
    fc
      .tuple(address(of), fc.bigInt({ min: 0n, max: 40n }))
      .map(([first, size]) =>
        printRange(of, { first, last: first + size > lastAddress(of) ? lastAddress(of) : first + size }),
      ),
  );

const rangesOf = (families: readonly Family[]): fc.Arbitrary<string[]> =>
  fc.array(fc.constantFrom(...families).chain(rangeText), { maxLength: 5 });

const port = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 65_535 }), fc.constantFrom(1, 65_535));
const anyPort = fc.constant([0, 0] as const);
const ports = fc.oneof(
  anyPort,
  fc.tuple(port, port).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const),
  port.map((p) => [p, p] as const),
);

const families: Readonly<Record<Protocol, readonly Family[]>> = {
  tcp: [4, 6],
  udp: [4, 6],
  ip: [4, 6],
  icmp: [4, 6],
  icmpv4: [4],
  ipv4: [4],
  icmpv6: [6],
  ipv6: [6],
};

/** A valid rule, as a person may write it. */
export const writtenRule: fc.Arbitrary<SecurityRule> = fc
  .constantFrom<Protocol>('tcp', 'tcp', 'udp', 'udp', 'ip', 'icmp', 'icmpv4', 'ipv4', 'icmpv6', 'ipv6')
  .chain((ip_protocol) =>
    fc
      .tuple(ip_protocol.startsWith('icmp') ? anyPort : ports, rangesOf(families[ip_protocol]))
      .map(([[from_port, to_port], ip_ranges]) => ({ ip_protocol, from_port, to_port, ip_ranges })),
  );

const rules = fc.array(writtenRule, { maxLength: 6 });

const group: fc.Arbitrary<PolicyGroup> = fc
  .tuple(fc.uuid(), fc.string({ minLength: 1, maxLength: 8 }), rules, rules)
  .map(([id, name, inbound, outbound]) => ({
    id: parseGroupId(id),
    name,
    inbound: normalizeRules(inbound),
    outbound: normalizeRules(outbound),
  }));

export const policy: fc.Arbitrary<EffectivePolicy> = fc
  .array(group, { minLength: 1, maxLength: 4 })
  .map((groups) => ({ source: 'list', groups }));

const transport: fc.Arbitrary<Transport> = fc.oneof(
  fc
    .tuple(fc.constantFrom('tcp' as const, 'udp' as const), fc.oneof(port, fc.constantFrom(0)))
    .map(([kind, dport]) => ({ kind, dport })),
  fc.constantFrom(0, 3, 8).map((type) => ({ kind: 'icmp' as const, type })),
  fc.constantFrom(1, 128, 129, 133, 135).map((type) => ({ kind: 'icmpv6' as const, type })),
  fc.constantFrom(47, 132).map((protocol) => ({ kind: 'other' as const, protocol })),
);

export const packet: fc.Arbitrary<Packet> = family.chain((of) =>
  fc
    .tuple(fc.constantFrom('inbound' as const, 'outbound' as const), address(of), transport, fc.constantFrom(64, 255))
    .map(([direction, remote, carried, hopLimit]) => ({ direction, family: of, remote, transport: carried, hopLimit })),
);
