/** Owns the text form of groups: as they are shown, and as they are written into files. */
import type { AddSecurityGroup, SecurityGroup } from '../../api/group.ts';
import type { Found, Problem } from '../../policy/problem.ts';
import type { Direction, Selector, StoredRule } from '../../policy/rule.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import { peerWord, ruleText, ruleWords } from '../../client/words/rule.ts';
import { noNames, type PeerNames } from './peer-text.ts';

export function problemLines({ problems, more }: Found<Pick<Problem, 'pointer' | 'detail'>>): readonly string[] {
  const lines = problems.map(({ pointer, detail }) => `${pointer === '' ? '' : `${pointer}: `}${detail}`);
  return more === 0 ? lines : [...lines, `and ${more} more`];
}

export interface GroupText {
  readonly name: string;
  readonly description: string;
  readonly guardrail?: string;
  readonly mode?: string;
  readonly applies_to?: readonly string[];
  readonly inbound: readonly string[];
  readonly outbound: readonly string[];
}

/** A group as it is written into a file: what `readWritten` reads as the same group. */
export function writeGroup(group: AddSecurityGroup, names: PeerNames = noNames): GroupText {
  const { guardrail, mode, applies_to = [] } = group;
  return {
    name: group.group_name,
    description: group.group_description ?? '',
    ...(guardrail !== undefined && { guardrail }),
    ...(mode !== undefined && { mode }),
    ...(applies_to.length > 0 && { applies_to: selectorsInWords(applies_to) }),
    inbound: (group.inbound_rules ?? []).map((rule) => ruleText('inbound', rule, names)),
    outbound: (group.outbound_rules ?? []).map((rule) => ruleText('outbound', rule, names)),
  };
}

export const selectorsInWords = (selectors: readonly Selector[] = []): readonly string[] =>
  selectors.map((selector) => peerWord(selector));

export const rulesInWords = (
  direction: Direction,
  rules: readonly StoredRule[] = [],
  names: PeerNames = noNames,
): readonly string[] => rules.map((rule) => ruleWords(direction, rule, names));

/** What every direction says, also where it has no rule: whether that opens or closes must be said. */
export function describeRules(
  direction: Direction,
  rules: readonly StoredRule[] = [],
  names: PeerNames = noNames,
): readonly string[] {
  const words = rulesInWords(direction, rules, names);
  if (words.length > 0) return words;
  return [direction === 'inbound' ? 'nothing (only replies)' : 'all traffic (no outbound rules)'];
}

export const sameSelectors = (a: readonly Selector[] = [], b: readonly Selector[] = []): boolean =>
  sameTexts(a.map(peerKey), b.map(peerKey));

const plain = (text: string): string => text.replaceAll(/\s+/g, '').toLowerCase();
/** Ranges have no order, as rules have none. */
function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  const sorted = (texts: readonly string[]): string => texts.map(plain).toSorted().join();
  return a.length === b.length && sorted(a) === sorted(b);
}

/** Deleted devices that rules still name. Their rules stay and match nothing. */
export function goneDevices(
  { inbound_rules = [], outbound_rules = [] }: SecurityGroup,
  names: PeerNames,
): readonly string[] {
  const peers = [...inbound_rules, ...outbound_rules].flatMap((rule) => rule.peers ?? []);
  const ids = peers.flatMap((peer) => ('device_id' in peer ? [peer.device_id] : []));
  return [...new Set(ids)].filter((id) => names.nameOf(id) === undefined);
}
