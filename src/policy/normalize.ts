/** Owns normalization: what a valid rule is stored as (reference 1.2 (15)). Idempotent. */
import { parseRange } from './address.ts';
import { mergeDescribed } from './rule-identity/rule-identity.ts';
import type { Family, SecurityRule, StoredProtocol, StoredRule } from './rule.ts';

/** Valid entries only: the caller has validated. */
function familyOf(entry: string): Family | undefined {
  const range = parseRange(entry);
  return 'fault' in range ? undefined : range.family;
}

function stored(ip_protocol: StoredProtocol, rule: SecurityRule, ranges: readonly string[]): StoredRule {
  // Adding 0 turns a written -0 into 0.
  const ports = { from_port: rule.from_port + 0, to_port: rule.to_port + 0 };
  const description = (rule.description ?? '').trim();
  // Absent and empty mean the same; what is shown is what was written.
  return {
    ip_protocol,
    ...ports,
    ...(rule.ip_ranges !== undefined && { ip_ranges: ranges }),
    ...(rule.peers !== undefined && { peers: rule.peers }),
    ...(rule.expires_at !== undefined && { expires_at: rule.expires_at }),
    ...(description !== '' && { description }),
  };
}

/**
 * One rule for each family that has ranges; without any ranges, those of `whenNone`. Peers may have addresses of both
 * families, so with them each of `whenNone` stays, also without ranges: then these add nothing.
 */
function byFamily(
  rule: SecurityRule,
  ranges: readonly string[],
  names: { readonly v4: StoredProtocol; readonly v6: StoredProtocol },
  whenNone: readonly StoredProtocol[],
): StoredRule[] {
  if (ranges.length === 0) return whenNone.map((protocol) => stored(protocol, rule, []));
  const v4 = ranges.filter((entry) => familyOf(entry) === 4);
  const v6 = ranges.filter((entry) => familyOf(entry) === 6);
  const part = (protocol: StoredProtocol, some: readonly string[]): StoredRule[] => {
    const named = rule.peers !== undefined && whenNone.includes(protocol);
    if (some.length === 0 && !named) return [];
    const { peers: _, ...withoutPeers } = rule;
    return [stored(protocol, named ? rule : withoutPeers, some)];
  };
  return [...part(names.v4, v4), ...part(names.v6, v6)];
}

/** The stored rules of one valid rule. Address texts are kept as written, trimmed. */
export function normalizeRule(rule: SecurityRule): StoredRule[] {
  const ranges = (rule.ip_ranges ?? []).map((entry) => entry.trim());
  switch (rule.ip_protocol) {
    case 'tcp':
    case 'udp':
    case 'ipv4':
    case 'ipv6':
    case 'icmpv6':
      return [stored(rule.ip_protocol, rule, ranges)];
    case 'icmpv4':
      return [stored('icmp', rule, ranges)];
    case 'icmp':
      return byFamily(rule, ranges, { v4: 'icmp', v6: 'icmpv6' }, ['icmp']);
    case 'ip':
      if (rule.from_port !== 0 || rule.to_port !== 0) {
        return [stored('tcp', rule, ranges), stored('udp', rule, ranges)];
      }
      return byFamily(rule, ranges, { v4: 'ipv4', v6: 'ipv6' }, ['ipv4', 'ipv6']);
    default:
      return rule.ip_protocol satisfies never;
  }
}

export const normalizeRules = (rules: readonly SecurityRule[]): readonly StoredRule[] =>
  mergeDescribed(rules.flatMap(normalizeRule));

/** How many address ranges the rules name, for the limit of a group. */
export const countRanges = (rules: readonly SecurityRule[]): number =>
  rules.reduce((sum, rule) => sum + (rule.ip_ranges?.length ?? 0), 0);
