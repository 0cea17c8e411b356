/** Owns the step from groups to the canonical form, and what the canonical form admits. */
import type {
  Addresses,
  CanonicalPolicy,
  DirectionPolicy,
  MatchSet,
  NamedPeers,
  TransportPolicy,
} from './canonical.ts';
import { hasForbid, isClosed, isForwardedOnly, isPlumbing, rulesOf, type DecideOptions } from './decide.ts';
import type { EffectivePolicy } from './effective.ts';
import type { GroupId } from './ids.ts';
import { peersKey } from './fleet/selector.ts';
import { withIsolation } from './isolation/isolation.ts';
import { isAboutSome, isAnyPort, isEcho, onlyFamily, ruleAddresses, ruleRanges, UnresolvedPeers } from './match.ts';
import type { Packet } from './packet.ts';
import { admittedPort } from './port-lookup.ts';
import type { PortRule } from './port-rule.ts';
import { toPortMap, toPortMaps } from './ports.ts';
import { hasAddress, isWholeFamily } from './range.ts';
import type { Direction, PolicyGroup, StoredRule } from './rule.ts';
import {
  byFamily,
  matchesNothing,
  mergeAddresses,
  sameAddresses,
  sharedBy,
  withNames,
  withoutFamilies,
} from './address-sets.ts';

/** What is left to say of the addresses once everybody of a whole family is admitted anyway. */
const beside = (addresses: Addresses, admitted: Addresses): Addresses =>
  withoutFamilies(addresses, { v4: isWholeFamily(admitted.v4, 4), v6: isWholeFamily(admitted.v6, 6) });

interface Collected {
  readonly any: Addresses[];
  readonly echo: Addresses[];
  readonly anyPort: { readonly tcp: Addresses[]; readonly udp: Addresses[] };
  readonly ports: { readonly tcp: PortRule[]; readonly udp: PortRule[] };
}

/** Whether peers become addresses like any others, or are kept apart. */
type PeersAs = 'addresses' | 'names';

/** Whom a rule of the group is about. */
function addressesOf(rule: StoredRule, group: GroupId, as: PeersAs): Addresses {
  const { peers, members } = rule;
  if (as === 'addresses' || peers === undefined) return sharedBy(ruleAddresses(rule), group);
  if (members === undefined) throw new UnresolvedPeers();
  const only = onlyFamily(rule);
  const named: readonly NamedPeers[] = [{ group, key: peersKey(peers), members }];
  return withNames(sharedBy(ruleRanges(rule), group), { v4: only === 6 ? [] : named, v6: only === 4 ? [] : named });
}

function collect(groups: readonly PolicyGroup[], direction: Direction, as: PeersAs): Collected {
  const all: Collected = { any: [], echo: [], anyPort: { tcp: [], udp: [] }, ports: { tcp: [], udp: [] } };
  for (const group of groups) {
    // Rules about whole families are often many and always alike: one object for all of them spares the same work later.
    const whole = new Map<string, Addresses>();
    for (const rule of rulesOf(group, direction)) {
      if (rule.expired === true) continue;
      const known = isAboutSome(rule) ? undefined : whole.get(rule.ip_protocol);
      const addresses = known ?? addressesOf(rule, group.id, as);
      if (!isAboutSome(rule)) whole.set(rule.ip_protocol, addresses);
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

/** What rules say of both protocols, beside what is admitted whatever the protocol. */
function mergeTransports(all: Collected, any: Addresses, order: readonly GroupId[]): Pick<MatchSet, 'tcp' | 'udp'> {
  const anyPortOf = (protocol: 'tcp' | 'udp'): Addresses => beside(mergeAddresses(all.anyPort[protocol], order), any);
  const rulesFor = (protocol: 'tcp' | 'udp', anyPort: Addresses): readonly PortRule[] =>
    all.ports[protocol].map((rule) => {
      const addresses = beside(beside(rule.addresses, any), anyPort);
      return addresses === rule.addresses ? rule : { ...rule, addresses };
    });
  const anyPort = { tcp: anyPortOf('tcp'), udp: anyPortOf('udp') };
  const tcpRules = rulesFor('tcp', anyPort.tcp);
  // Rules about both protocols are one object in both lists: a policy of such rules is worked out once.
  const { ports } = all;
  const isAlike = ports.tcp.length === ports.udp.length && ports.tcp.every((rule, i) => rule === ports.udp[i]);
  if (isAlike && sameAddresses(anyPort.tcp, anyPort.udp)) {
    const both: TransportPolicy = { anyPort: anyPort.tcp, ports: toPortMap(tcpRules, order) };
    return { tcp: both, udp: both };
  }
  const maps = toPortMaps(tcpRules, rulesFor('udp', anyPort.udp), order);
  return { tcp: { anyPort: anyPort.tcp, ports: maps.tcp }, udp: { anyPort: anyPort.udp, ports: maps.udp } };
}

/** Brings together what the rules of all groups say of one direction; those that come first count first. */
function merge(groups: readonly PolicyGroup[], direction: Direction, as: PeersAs): MatchSet {
  const all = collect(groups, direction, as);
  const order: readonly GroupId[] = [...new Set(groups.map(({ id }) => id))];
  const any = mergeAddresses(all.any, order);
  const { tcp, udp } = mergeTransports(all, any, order);
  const echo = byFamily(beside(mergeAddresses(all.echo, order), any));
  return { any, echo, tcp, udp };
}

/** What guardrails forbid in this direction. Empty where their rules match nothing. */
function forbidden(policy: EffectivePolicy, direction: Direction, as: PeersAs): { readonly forbid?: MatchSet } {
  if (!hasForbid(policy, direction)) return {};
  const forbid = merge(policy.guardrails?.forbid ?? [], direction, as);
  return matchesNothing(forbid) ? {} : { forbid };
}

function directionPolicy(policy: EffectivePolicy, direction: Direction, as: PeersAs = 'addresses'): DirectionPolicy {
  const { forbid } = forbidden(policy, direction, as);
  const forbidding = forbid === undefined ? {} : { forbid };
  if (!isClosed(policy, direction)) return { kind: 'open', ...forbidding };
  // What guardrails require is admitted before groups are asked, and closes nothing.
  const matched = merge([...(policy.guardrails?.require ?? []), ...policy.groups], direction, as);
  // The chain that admits everything is given to the letter, and it counts nothing (reference 1.2 (10)).
  const { v4, v6 } = matched.any;
  const isOpen = direction === 'inbound' && isWholeFamily(v4, 4) && isWholeFamily(v6, 6) && forbid === undefined;
  return { kind: 'closed', ...matched, ...(isOpen && { any: { v4, v6 } }), ...forbidding };
}

/**
 * The canonical form of a policy. It is equal for rules in any order, duplicated, overlapping or split. The order of
 * the groups decides only which group counts a packet that several groups admit.
 */
export function canonicalize(effective: EffectivePolicy): CanonicalPolicy {
  const policy = withIsolation(effective);
  return { inbound: directionPolicy(policy, 'inbound'), outbound: directionPolicy(policy, 'outbound') };
}

/** Rules that may name devices before these are taken as addresses: a map for each is dear in the kernel, like a set. */
const mostNamingRules = 500;

/** Whether the rule names devices. An expired rule names none. */
const isNaming = ({ peers, expired }: StoredRule): boolean => peers !== undefined && expired !== true;

function countNamingRules({ groups, guardrails }: EffectivePolicy): number {
  const all = [...groups, ...(guardrails?.forbid ?? []), ...(guardrails?.require ?? [])];
  return all.reduce((sum, { inbound, outbound }) => sum + [...inbound, ...outbound].filter(isNaming).length, 0);
}

/**
 * The same policy with peers kept apart from other addresses: a form that changes with the rules, and not with who their
 * peers are. It can be compiled; what it admits is asked of the other one. Nothing where no rule names devices, or too
 * many do.
 */
export function canonicalizeNames(effective: EffectivePolicy): CanonicalPolicy | undefined {
  const policy = withIsolation(effective);
  const naming = countNamingRules(policy);
  if (naming === 0 || naming > mostNamingRules) return undefined;
  return {
    inbound: directionPolicy(policy, 'inbound', 'names'),
    outbound: directionPolicy(policy, 'outbound', 'names'),
  };
}

function isMatched({ any, echo, ...transports }: MatchSet, packet: Packet): boolean {
  const holds = ({ v4, v6, names }: Addresses): boolean => {
    if (names !== undefined) throw new UnresolvedPeers();
    return hasAddress(packet.family === 4 ? v4 : v6, packet.remote);
  };
  if (holds(any) || (isEcho(packet) && holds(echo))) return true;
  const { transport } = packet;
  if (transport.kind !== 'tcp' && transport.kind !== 'udp') return false;
  const { anyPort, ports } = transports[transport.kind];
  return holds(anyPort) || admittedPort(ports, transport.dport, packet.family, packet.remote) !== undefined;
}

/** Whether the canonical form admits the packet: `decide` by the other road. */
export function admits(policy: CanonicalPolicy, packet: Packet, options: DecideOptions = {}): boolean {
  const direction = policy[packet.direction];
  if (isForwardedOnly(packet, options)) return true;
  if (packet.state === 'established' || packet.state === 'related') return true;
  if (isPlumbing(packet, options) !== undefined) return true;
  if (direction.forbid !== undefined && isMatched(direction.forbid, packet)) return false;
  return direction.kind === 'open' || isMatched(direction, packet);
}
