/** Owns a second oracle: the reference read naively, rule by rule on the numbers as drawn, sharing no code with the product. */
import type { Packet } from '../../src/policy/packet.ts';
import { addressesNamed } from './naming.ts';
import { groupsInForce, type DrawnGroup, type DrawnRule, type Scenario } from './scenario.ts';

export function naiveVerdict(scenario: Scenario, packet: Packet): 'accept' | 'drop' {
  const { forbid, require } = scenario.guardrails;
  const rulesOf = (groups: readonly DrawnGroup[]): DrawnRule[] => groups.flatMap((group) => group[packet.direction]);
  const isMatched = (rules: readonly DrawnRule[]): boolean =>
    rules.some((rule) => rule.expiry !== 'past' && isAbout(scenario, rule, packet)); // reference 2.14
  if (scenario.neighbourDiscovery && isGenuineDiscovery(packet)) return 'accept';
  if (isMatched(rulesOf(forbid))) return 'drop'; // reference 1.4
  if (isMatched(rulesOf(require))) return 'accept';
  const rules = rulesOf(groupsInForce(scenario));
  if (packet.direction === 'outbound' && rules.length === 0) return 'accept'; // reference 1.2 (9)
  return isMatched(rules) ? 'accept' : 'drop';
}

/** By its ranges, or by the addresses of the devices that it names, of the families that its protocol takes. */
function isAbout({ devices }: Scenario, rule: DrawnRule, packet: Packet): boolean {
  if (rule.peers === undefined) return admitsAddress(rule, packet) && admitsTransport(rule, packet);
  const byRanges = rule.ranges.length > 0 && admitsAddress(rule, packet) && admitsTransport(rule, packet);
  // What peers add to an icmp rule is IPv4, as if it had no ranges.
  const named = { ...rule, ranges: addressesNamed(rule.peers, devices) };
  const byPeers = named.ranges.length > 0 && admitsAddress(named, packet);
  return byRanges || (byPeers && admitsTransport({ ...rule, ranges: [] }, packet));
}

function isGenuineDiscovery({ family, transport, hopLimit }: Packet): boolean {
  if (family !== 6 || transport.kind !== 'icmpv6') return false;
  const { type } = transport;
  return (
    (hopLimit === 255 && [133, 134, 135, 136].includes(type)) || (hopLimit === 1 && [130, 131, 132, 143].includes(type))
  );
}

/** Reference 1.2 (4), (8). */
function admitsAddress({ ranges }: DrawnRule, { family, remote }: Packet): boolean {
  return (
    ranges.length === 0 ||
    ranges.some((range) => range.family === family && range.first <= remote && remote <= range.last)
  );
}

/** Reference 1.2 (5), (7), (15). */
function admitsTransport({ protocol, from, to, ranges }: DrawnRule, { family, transport }: Packet): boolean {
  const anyPort = from === 0 && to === 0;
  const isTcpOrUdp = transport.kind === 'tcp' || transport.kind === 'udp';
  const admitsPort = isTcpOrUdp && (anyPort || (transport.dport >= from && transport.dport <= to));
  const isEcho4 = family === 4 && transport.kind === 'icmp' && [0, 8].includes(transport.type);
  const isEcho6 = family === 6 && transport.kind === 'icmpv6' && [128, 129].includes(transport.type);
  switch (protocol) {
    case 'tcp':
    case 'udp':
      return transport.kind === protocol && admitsPort;
    case 'icmpv4':
      return isEcho4;
    case 'icmp':
      return isEcho4 || (isEcho6 && ranges.length > 0);
    case 'icmpv6':
      return isEcho6;
    case 'ipv4':
      return family === 4 && (anyPort || admitsPort);
    case 'ipv6':
      return family === 6 && (anyPort || admitsPort);
    case 'ip':
      return anyPort || admitsPort;
    default:
      return protocol satisfies never;
  }
}
