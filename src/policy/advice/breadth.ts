/**
 * Owns advice on a list of rules: rules that are open to all addresses, and rules that a broader one makes redundant.
 */
import { peerKey } from '../fleet/selector.ts';
import { isAboutSome, isAnyPort, onlyFamily, ruleRanges } from '../match.ts';
import { isWholeFamily, rangeAt, type RangeSet } from '../range.ts';
import type { Peer, StoredRule } from '../rule.ts';

/** Whether the rule names every address of a family that it is about. */
export function isOpenToAll(rule: StoredRule): boolean {
  if (!isAboutSome(rule)) return true;
  const { v4, v6 } = ruleRanges(rule);
  return isWholeFamily(v4, 4) || isWholeFamily(v6, 6);
}

const holdsAll = (broad: RangeSet, narrow: RangeSet): boolean =>
  narrow.every(({ first, last }) => {
    const around = rangeAt(broad, first);
    return around !== undefined && last <= around.last;
  });

function peerHolds(broad: Peer, narrow: Peer): boolean {
  if ('all_devices' in broad) return true;
  if ('labels' in broad && 'labels' in narrow) return broad.labels.every((label) => narrow.labels.includes(label));
  return peerKey(broad) === peerKey(narrow);
}

function holdsFarEnd(broad: StoredRule, narrow: StoredRule): boolean {
  const family = onlyFamily(narrow);
  const [around, inside] = [ruleRanges(broad), ruleRanges(narrow)];
  const peersHeld = (narrow.peers ?? []).every((peer) => {
    // A peer may have addresses of each family that its rule is about.
    const everybody = (family === 6 || isWholeFamily(around.v4, 4)) && (family === 4 || isWholeFamily(around.v6, 6));
    const sameFamilies = onlyFamily(broad) === undefined || onlyFamily(broad) === family;
    return everybody || (sameFamilies && (broad.peers ?? []).some((one) => peerHolds(one, peer)));
  });
  return peersHeld && holdsAll(around.v4, inside.v4) && holdsAll(around.v6, inside.v6);
}

function holdsTransport(broad: StoredRule, narrow: StoredRule): boolean {
  const isWide = broad.ip_protocol === 'ipv4' || broad.ip_protocol === 'ipv6';
  if (broad.ip_protocol !== narrow.ip_protocol && !isWide) return false;
  if (isAnyPort(broad)) return true;
  return !isAnyPort(narrow) && broad.from_port <= narrow.from_port && narrow.to_port <= broad.to_port;
}

/**
 * Whether the broad rule admits everything that the narrow rule admits, independent of which devices the peers match.
 */
export const isWithin = (narrow: StoredRule, broad: StoredRule): boolean =>
  holdsTransport(broad, narrow) && holdsFarEnd(broad, narrow);

export interface Redundant {
  readonly rule: StoredRule;
  readonly within: StoredRule;
}

/** More than this and every pair would cost more than the hint is worth. */
const mostRules = 200;

/** Rules that another rule of the list makes needless; of two that say the same, the later. */
export function redundantRules(rules: readonly StoredRule[]): readonly Redundant[] {
  if (rules.length > mostRules) return [];
  return rules.flatMap((rule, index): readonly Redundant[] => {
    const within = rules.find(
      (other, at) => at !== index && isWithin(rule, other) && (at < index || !isWithin(other, rule)),
    );
    return within === undefined ? [] : [{ rule, within }];
  });
}
