/** Owns the random fleets, peers and guarded policies that property tests draw from: few labels and addresses, so that they meet. */
import fc from 'fast-check';
import { printAddress, type Address } from '../address.ts';
import { packet, writtenRule } from '../arbitrary.fixture.ts';
import type { EffectivePolicy } from '../effective.ts';
import { parseGroupId } from '../ids.ts';
import { normalizeRules } from '../normalize.ts';
import type { Packet } from '../packet.ts';
import type { Peer, PolicyGroup, SecurityRule } from '../rule.ts';
import type { DeviceIdentity } from './identity.ts';

const names = ['db', 'web', 'prod', 'eu', 'ci'] as const;
const uuid = (n: number): string => `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`;

/** Twelve devices share some forty addresses. */
export const deviceIds = Array.from({ length: 12 }, (_, i) => uuid(0xd0 + i));
const labels = fc.subarray([...names], { maxLength: 4 });
const address: fc.Arbitrary<Address> = fc
  .tuple(fc.constantFrom(4 as const, 6 as const), fc.bigInt({ min: 0n, max: 20n }))
  .map(([family, n]) => ({ family, value: (family === 4 ? 0x0a00_0000n : 0xfd00n << 112n) + n }));
const ownAddresses = fc.uniqueArray(address, { maxLength: 4, selector: (each) => `${each.family} ${each.value}` });

export const device: fc.Arbitrary<DeviceIdentity> = fc.record({
  id: fc.constantFrom(...deviceIds),
  labels,
  addresses: ownAddresses,
});

/** A device in a new state, or one that goes. */
export const fleetChange: fc.Arbitrary<DeviceIdentity | { readonly gone: string }> = fc.oneof(
  { weight: 4, arbitrary: device },
  { weight: 1, arbitrary: fc.constantFrom(...deviceIds).map((gone) => ({ gone })) },
);

export const peer: fc.Arbitrary<Peer> = fc.oneof(
  { weight: 5, arbitrary: fc.subarray([...names], { minLength: 1, maxLength: 3 }).map((some) => ({ labels: some })) },
  { weight: 2, arbitrary: fc.constantFrom(...deviceIds, uuid(0xff)).map((device_id) => ({ device_id })) },
  { weight: 1, arbitrary: fc.constant({ all_devices: true } as const) },
);

/** A rule that names devices, beside ranges or alone. */
const namingRule: fc.Arbitrary<SecurityRule> = fc
  .tuple(writtenRule, fc.array(peer, { minLength: 1, maxLength: 3 }))
  .map(([rule, peers]) => ({ ...rule, peers }));
const rules = fc.array(fc.oneof(writtenRule, namingRule), { maxLength: 5 });

const groupOf = (n: number): fc.Arbitrary<PolicyGroup> =>
  fc.tuple(rules, rules).map(([inbound, outbound]) => ({
    id: parseGroupId(uuid(n)),
    name: `group ${n}`,
    inbound: normalizeRules(inbound),
    outbound: normalizeRules(outbound),
  }));
const some = (from: number, most: number): fc.Arbitrary<PolicyGroup[]> =>
  fc
    .integer({ min: 0, max: most })
    .chain((count) => fc.tuple(...Array.from({ length: count }, (_, i) => groupOf(from + i))));

/** Groups, and above them guardrails; rules of all of them name devices. */
export const guardedPolicy: fc.Arbitrary<EffectivePolicy> = fc
  .tuple(some(1, 3), some(16, 2), some(32, 2))
  .map(([groups, forbid, require]) => ({ source: 'list', groups, guardrails: { forbid, require } }));

/** Packets of devices and of others. */
export const packetOfFleet: fc.Arbitrary<Packet> = fc
  .tuple(packet, address, fc.boolean())
  .map(([each, { family, value }, own]) => {
    if (!own) return each;
    const isEcho = each.transport.kind === 'icmp' || each.transport.kind === 'icmpv6';
    const echo = family === 4 ? ({ kind: 'icmp', type: 8 } as const) : ({ kind: 'icmpv6', type: 128 } as const);
    return { ...each, family, remote: value, transport: isEcho ? echo : each.transport };
  });

export const textOf = ({ family, value }: Address): string => printAddress(family, value);
