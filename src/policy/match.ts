/** Owns what one stored rule admits: its addresses as numbers, and whether it matches a packet (reference 1.2 (4)–(8)). */
import { parseRange } from './address.ts';
import type { Addresses } from './canonical.ts';
import type { Packet } from './packet.ts';
import { hasAddress, mergeRanges, uniteRanges, wholeFamily, type Range } from './range.ts';
import type { Family, Members, Peer, StoredRule } from './rule.ts';

const knownRanges = new WeakMap<StoredRule, Addresses>();
const knownAddresses = new WeakMap<StoredRule, Addresses>();
const knownUnexpired = new WeakMap<StoredRule, StoredRule>();
const fewRanges = 4;

/** Works it out once for each rule object: stored rules never change. */
function once<T extends object>(known: WeakMap<StoredRule, T>, rule: StoredRule, read: (rule: StoredRule) => T): T {
  let value = known.get(rule);
  if (value === undefined) {
    value = read(rule);
    known.set(rule, value);
  }
  return value;
}

/**
 * Thrown where a rule names devices that were not resolved. Its far end is then unknown, which differs from an empty
 * one.
 */
export class UnresolvedPeers extends Error {
  readonly code = 'unresolved_peers';
  constructor() {
    super('a rule names devices whose addresses were not looked up');
  }
}

/** The only family that the rule can match, where it has one. */
export function onlyFamily({ ip_protocol }: StoredRule): Family | undefined {
  if (ip_protocol === 'ipv4' || ip_protocol === 'icmp') return 4;
  return ip_protocol === 'ipv6' || ip_protocol === 'icmpv6' ? 6 : undefined;
}

/** Whether the rule is about some addresses; otherwise it is about every address of its families. */
export const isAboutSome = ({ ip_ranges, peers }: StoredRule): boolean =>
  peers !== undefined || (ip_ranges !== undefined && ip_ranges.length > 0);

const nobody: Addresses = { v4: [], v6: [] };

function readRanges(rule: StoredRule): Addresses {
  const only = onlyFamily(rule);
  if (!isAboutSome(rule)) return { v4: only === 6 ? [] : wholeFamily(4), v6: only === 4 ? [] : wholeFamily(6) };
  const v4: Range[] = [];
  const v6: Range[] = [];
  for (const entry of rule.ip_ranges ?? []) {
    const range = parseRange(entry);
    // A stored rule holds valid entries of its own family only. Any other entry admits nothing.
    if ('fault' in range || (only !== undefined && range.family !== only)) continue;
    (range.family === 4 ? v4 : v6).push(range);
  }
  return { v4: mergeRanges(v4), v6: mergeRanges(v6) };
}

/** The addresses of the rule's ranges, without its peers. Empty once the rule has expired. Many ranges are read only once. */
export function ruleRanges(rule: StoredRule): Addresses {
  if (rule.expired === true) return nobody;
  // To remember very many rules takes more time and memory than to read a few ranges again.
  return (rule.ip_ranges?.length ?? 0) <= fewRanges ? readRanges(rule) : once(knownRanges, rule, readRanges);
}

function readAddresses(rule: StoredRule): Addresses {
  const written = ruleRanges(rule);
  const { members } = rule;
  if (members === undefined) throw new UnresolvedPeers();
  const only = onlyFamily(rule);
  return {
    v4: only === 6 ? written.v4 : uniteRanges(written.v4, members.v4),
    v6: only === 4 ? written.v6 : uniteRanges(written.v6, members.v6),
  };
}

/** Whom the rule admits, by family. Empty once the rule has expired. */
export function ruleAddresses(rule: StoredRule): Addresses {
  if (rule.expired === true) return nobody;
  return rule.peers === undefined ? ruleRanges(rule) : once(knownAddresses, rule, readAddresses);
}

function readUnexpired(rule: StoredRule): StoredRule {
  const { expired: _, ...before } = rule;
  return before;
}

/** The rule as it was before it expired. */
export const unexpired = (rule: StoredRule): StoredRule =>
  rule.expired === true ? once(knownUnexpired, rule, readUnexpired) : rule;

export const isAnyPort = (rule: StoredRule): boolean => rule.from_port === 0 && rule.to_port === 0;

export function isEcho({ family, transport }: Packet): boolean {
  if (transport.kind === 'icmp') return family === 4 && (transport.type === 0 || transport.type === 8);
  if (transport.kind === 'icmpv6') return family === 6 && (transport.type === 128 || transport.type === 129);
  return false;
}

function admitsPort(rule: StoredRule, port: number): boolean {
  return isAnyPort(rule) || (rule.from_port <= port && port <= rule.to_port);
}

/** Whether the rule speaks of the packet's protocol and port; whose address it may be is another question. */
export function isAboutTransport(rule: StoredRule, packet: Packet): boolean {
  const { transport } = packet;
  switch (rule.ip_protocol) {
    case 'tcp':
    case 'udp':
      return transport.kind === rule.ip_protocol && admitsPort(rule, transport.dport);
    case 'icmp':
    case 'icmpv6':
      return isEcho(packet);
    case 'ipv4':
    case 'ipv6':
      if (isAnyPort(rule)) return true;
      return (transport.kind === 'tcp' || transport.kind === 'udp') && admitsPort(rule, transport.dport);
    default:
      return rule.ip_protocol satisfies never;
  }
}

/** What is asked of the fleet here. */
interface Membership {
  readonly addressesOf: (peer: Peer) => Members;
}

/**
 * Whether the rule names the packet's far end, whatever its protocol and ports. The family needs no look of its own: the addresses hold it. A rule
 * whose peers were not resolved asks the fleet.
 */
export function namesFar(rule: StoredRule, { family, remote }: Packet, fleet?: Membership): boolean {
  const holds = ({ v4, v6 }: Members): boolean => hasAddress(family === 4 ? v4 : v6, remote);
  if (rule.peers === undefined || rule.members !== undefined || fleet === undefined) return holds(ruleAddresses(rule));
  if (holds(ruleRanges(rule))) return true;
  const only = onlyFamily(rule);
  return (only === undefined || only === family) && rule.peers.some((peer) => holds(fleet.addressesOf(peer)));
}

/** Whether the rule, by itself, matches the packet. */
export const ruleAdmits = (rule: StoredRule, packet: Packet, fleet?: Membership): boolean =>
  rule.expired !== true && isAboutTransport(rule, packet) && namesFar(rule, packet, fleet);
