/** Owns what one stored rule admits: its addresses as numbers, and whether it matches a packet (reference 1.2 (4)–(8)). */
import { parseRange } from './address.ts';
import type { Addresses } from './canonical.ts';
import type { Packet } from './packet.ts';
import { hasAddress, mergeRanges, wholeFamily, type Range } from './range.ts';
import type { Family, StoredRule } from './rule.ts';

const known = new WeakMap<StoredRule, Addresses>();

function readAddresses(rule: StoredRule): Addresses {
  const only: Family | undefined =
    rule.ip_protocol === 'ipv4' || rule.ip_protocol === 'icmp'
      ? 4
      : rule.ip_protocol === 'ipv6' || rule.ip_protocol === 'icmpv6'
        ? 6
        : undefined;
  const entries = rule.ip_ranges ?? [];
  if (entries.length === 0) {
    return { v4: only === 6 ? [] : wholeFamily(4), v6: only === 4 ? [] : wholeFamily(6) };
  }
  const v4: Range[] = [];
  const v6: Range[] = [];
  for (const entry of entries) {
    const range = parseRange(entry);
    // A stored rule holds valid entries of its own family; one that does not admits nobody by that entry.
    if ('fault' in range || (only !== undefined && range.family !== only)) continue;
    (range.family === 4 ? v4 : v6).push(range);
  }
  return { v4: mergeRanges(v4), v6: mergeRanges(v6) };
}

/** Whom the rule admits, by family. Read once for each rule object: stored rules never change. */
export function ruleAddresses(rule: StoredRule): Addresses {
  let addresses = known.get(rule);
  if (addresses === undefined) {
    addresses = readAddresses(rule);
    known.set(rule, addresses);
  }
  return addresses;
}

export const isAnyPort = (rule: StoredRule): boolean => rule.from_port === 0 && rule.to_port === 0;

/** Echo request and echo reply, the ICMP that a rule can admit (errors are `related`). */
export const echoTypes = { icmp: [0, 8], icmpv6: [128, 129] } as const;

export function isEcho({ family, transport }: Packet): boolean {
  if (transport.kind === 'icmp') return family === 4 && (transport.type === 0 || transport.type === 8);
  if (transport.kind === 'icmpv6') return family === 6 && (transport.type === 128 || transport.type === 129);
  return false;
}

function admitsPort(rule: StoredRule, port: number): boolean {
  return isAnyPort(rule) || (rule.from_port <= port && port <= rule.to_port);
}

function admitsTransport(rule: StoredRule, packet: Packet): boolean {
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

/** Whether the rule, by itself, admits the packet. The family needs no look of its own: the addresses hold it. */
export function ruleAdmits(rule: StoredRule, packet: Packet): boolean {
  const addresses = ruleAddresses(rule);
  return admitsTransport(rule, packet) && hasAddress(packet.family === 4 ? addresses.v4 : addresses.v6, packet.remote);
}
