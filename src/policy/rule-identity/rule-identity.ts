/** Owns when two rules are the same rule: their fields without the description, whatever the order of ranges and peers. */
import { peerKey } from '../fleet/selector.ts';
import type { SecurityRule, StoredRule } from '../rule.ts';
import { expiryOf } from '../time/policy-at.ts';

const plain = (text: string): string => text.replaceAll(/\s+/g, '').toLowerCase();

/** Equal for rules that are the same rule. A description is no part of a rule's identity. */
export const ruleIdentity = (rule: SecurityRule): string => {
  const { ip_protocol, from_port, to_port, ip_ranges = [], peers } = rule;
  return JSON.stringify([
    ip_protocol,
    from_port,
    to_port,
    ip_ranges.map(plain).toSorted(),
    // A rule with peers that match no device admits nobody, and one without peers admits every address.
    peers === undefined ? null : peers.map((peer) => plain(peerKey(peer))).toSorted(),
    String(expiryOf(rule)),
  ]);
};

/**
 * Rules that differ in their description only are one rule: it stays at its first place, with the first description. Rules that are
 * repeated without any description stay as they were written.
 */
export function mergeDescribed(rules: readonly StoredRule[]): readonly StoredRule[] {
  if (rules.every(({ description }) => description === undefined)) return rules;
  const descriptions = new Map<string, string>();
  for (const rule of rules) {
    const identity = ruleIdentity(rule);
    if (rule.description !== undefined && !descriptions.has(identity)) descriptions.set(identity, rule.description);
  }
  const kept = new Set<string>();
  return rules.flatMap((rule) => {
    const identity = ruleIdentity(rule);
    const description = descriptions.get(identity);
    if (description === undefined) return [rule];
    if (kept.has(identity)) return [];
    kept.add(identity);
    return [{ ...rule, description }];
  });
}
