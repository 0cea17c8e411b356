/** Owns the way from groups to the canonical form, and what the canonical form admits. */
import type { Addresses, CanonicalPolicy, DirectionPolicy, TransportPolicy } from './canonical.ts';
import { isClosed, isForwardedOnly, isPlumbing, rulesOf, type DecideOptions } from './decide.ts';
import type { EffectivePolicy } from './effective.ts';
import type { GroupId } from './ids.ts';
import { isAnyPort, isEcho, ruleAddresses } from './match.ts';
import type { Packet } from './packet.ts';
import { admittedPort } from './port-lookup.ts';
import type { PortRule } from './port-rule.ts';
import { toPortMap } from './ports.ts';
import { hasAddress, isWholeFamily } from './range.ts';
import type { Direction, StoredRule } from './rule.ts';
import { byFamily, mergeAddresses, sameAddresses, sharedBy, withoutFamilies } from './shares.ts';

/** What is left to say of the addresses once everybody of a whole family is admitted anyway. */
const beside = (addresses: Addresses, admitted: Addresses): Addresses =>
  withoutFamilies(addresses, { v4: isWholeFamily(admitted.v4, 4), v6: isWholeFamily(admitted.v6, 6) });

interface Collected {
  readonly any: Addresses[];
  readonly echo: Addresses[];
  readonly anyPort: { readonly tcp: Addresses[]; readonly udp: Addresses[] };
  readonly ports: { readonly tcp: PortRule[]; readonly udp: PortRule[] };
}

const isAboutRanges = ({ ip_ranges }: StoredRule): boolean => ip_ranges !== undefined && ip_ranges.length > 0;

function collect(policy: EffectivePolicy, direction: Direction): Collected {
  const all: Collected = { any: [], echo: [], anyPort: { tcp: [], udp: [] }, ports: { tcp: [], udp: [] } };
  for (const group of policy.groups) {
    // Rules about whole families are often many and always alike: one object for all of them spares the same work later.
    const whole = new Map<string, Addresses>();
    for (const rule of rulesOf(group, direction)) {
      const known = isAboutRanges(rule) ? undefined : whole.get(rule.ip_protocol);
      const addresses = known ?? sharedBy(ruleAddresses(rule), group.id);
      if (!isAboutRanges(rule)) whole.set(rule.ip_protocol, addresses);
      const ports = { from: rule.from_port, to: rule.to_port, addresses };
      switch (rule.ip_protocol) {
        case 'tcp':
        case 'udp':
          if (isAnyPort(rule)) all.anyPort[rule.ip_protocol].push(addresses);
          else all.ports[rule.ip_protocol].push(ports);
          break;
        case 'icmp':
        case 'icmpv6':
          all.echo.push(addresses);
          break;
        case 'ipv4':
        case 'ipv6':
          if (isAnyPort(rule)) all.any.push(addresses);
          else {
            all.ports.tcp.push(ports);
            all.ports.udp.push(ports);
          }
          break;
        default:
          rule.ip_protocol satisfies never;
      }
    }
  }
  return all;
}

/** Brings together what the rules of all groups say of one direction. */
function merge(all: Collected, order: readonly GroupId[]): Extract<DirectionPolicy, { kind: 'closed' }> {
  const any = mergeAddresses(all.any, order);
  const transport = (protocol: 'tcp' | 'udp', alike?: TransportPolicy): TransportPolicy => {
    const anyPort = beside(mergeAddresses(all.anyPort[protocol], order), any);
    if (alike !== undefined && sameAddresses(alike.anyPort, anyPort)) return alike;
    const rules = all.ports[protocol].map((rule) => ({
      ...rule,
      addresses: beside(beside(rule.addresses, any), anyPort),
    }));
    return { anyPort, ports: toPortMap(rules, order) };
  };
  const tcp = transport('tcp');
  // Rules about both protocols are one object in both lists: a policy of such rules is worked out once.
  const { ports } = all;
  const isAlike = ports.tcp.length === ports.udp.length && ports.tcp.every((rule, i) => rule === ports.udp[i]);
  const udp = transport('udp', isAlike ? tcp : undefined);
  const echo = byFamily(beside(mergeAddresses(all.echo, order), any));
  return { kind: 'closed', any, echo, tcp, udp };
}

function directionPolicy(policy: EffectivePolicy, direction: Direction): DirectionPolicy {
  if (!isClosed(policy, direction)) return { kind: 'open' };
  const order = [...new Set(policy.groups.map(({ id }) => id))];
  const closed = merge(collect(policy, direction), order);
  // The chain that admits everything is given to the letter, and it counts nothing (reference 1.2 (10)).
  const { v4, v6 } = closed.any;
  const isOpen = direction === 'inbound' && isWholeFamily(v4, 4) && isWholeFamily(v6, 6);
  return isOpen ? { ...closed, any: { v4, v6 } } : closed;
}

/**
 * The canonical form of a policy: equal for rules in any order, doubled, overlapping or split. The order of groups tells
 * to whom a packet is counted that several of them admit, and nothing else.
 */
export const canonicalize = (policy: EffectivePolicy): CanonicalPolicy => ({
  inbound: directionPolicy(policy, 'inbound'),
  outbound: directionPolicy(policy, 'outbound'),
});

/** Whether the canonical form admits the packet: `decide` by the other road. */
export function admits(policy: CanonicalPolicy, packet: Packet, options: DecideOptions = {}): boolean {
  const direction = policy[packet.direction];
  if (isForwardedOnly(packet, options) || direction.kind === 'open') return true;
  if (packet.state === 'established' || packet.state === 'related') return true;
  if (isPlumbing(packet, options) !== undefined) return true;
  const holds = ({ v4, v6 }: Addresses): boolean => hasAddress(packet.family === 4 ? v4 : v6, packet.remote);
  if (holds(direction.any) || (isEcho(packet) && holds(direction.echo))) return true;
  const { transport } = packet;
  if (transport.kind !== 'tcp' && transport.kind !== 'udp') return false;
  const { anyPort, ports } = direction[transport.kind];
  return holds(anyPort) || admittedPort(ports, transport.dport, packet.family, packet.remote) !== undefined;
}
