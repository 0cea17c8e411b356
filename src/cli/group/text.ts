/** Owns groups in words: as they are shown, and as they are written into files. */
import type { SecurityGroup } from '../../api/group.ts';
import type { Found, Problem } from '../../policy/problem.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { ruleWords } from './rule-text.ts';

export function problemLines({ problems, more }: Found<Pick<Problem, 'pointer' | 'detail'>>): readonly string[] {
  const lines = problems.map(({ pointer, detail }) => `${pointer === '' ? '' : `${pointer}: `}${detail}`);
  return more === 0 ? lines : [...lines, `and ${more} more`];
}

/** A group as it is written into a file: what `readWritten` reads as the same group. */
export function writeGroup(group: SecurityGroup): {
  readonly name: string;
  readonly description: string;
  readonly inbound: readonly string[];
  readonly outbound: readonly string[];
} {
  return {
    name: group.group_name,
    description: group.group_description,
    inbound: rulesInWords('inbound', group.inbound_rules),
    outbound: rulesInWords('outbound', group.outbound_rules),
  };
}

export const rulesInWords = (direction: Direction, rules: readonly StoredRule[] = []): readonly string[] =>
  rules.map((rule) => ruleWords(direction, rule));

/** What every direction says, also where it has no rule: whether that opens or closes must be said. */
export function describeRules(direction: Direction, rules: readonly StoredRule[] = []): readonly string[] {
  const words = rulesInWords(direction, rules);
  if (words.length > 0) return words;
  return [direction === 'inbound' ? 'nothing (only replies)' : 'everything (no outbound rules)'];
}

export const sameRule = (a: StoredRule, b: StoredRule): boolean =>
  a.ip_protocol === b.ip_protocol &&
  a.from_port === b.from_port &&
  a.to_port === b.to_port &&
  sameTexts(a.ip_ranges ?? [], b.ip_ranges ?? []);

const plain = (text: string): string => text.replace(/\s+/g, '').toLowerCase();
/** Ranges have no order, as rules have none. */
function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  const sorted = (texts: readonly string[]): string => texts.map(plain).toSorted().join();
  return a.length === b.length && sorted(a) === sorted(b);
}
