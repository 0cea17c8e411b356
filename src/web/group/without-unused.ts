/** Owns the draft of a group without its unused rules. It never removes the last outbound rules: without any, everything could go out. */
import type { Direction, StoredRule } from '../../policy/rule.ts';
import type { Content } from '../model/draft.ts';

export type IsUnused = (direction: Direction, rule: StoredRule, index: number) => boolean;

export interface WithoutUnused {
  readonly content: Content;
  readonly removed: number;
  /** Unused outbound rules that stay, because no other outbound rule would be left. */
  readonly kept: number;
}

export function withoutUnused(content: Content, isUnused: IsUnused): WithoutUnused {
  const left = (direction: Direction): readonly StoredRule[] =>
    content[`${direction}_rules`].filter((rule, index) => !isUnused(direction, rule, index));
  const [inbound_rules, outbound] = [left('inbound'), left('outbound')];
  const before = content.outbound_rules;
  // A guardrail closes and opens nothing but what it names.
  const opens = outbound.length === 0 && before.length > 0 && content.guardrail === undefined;
  const outbound_rules = opens ? before : outbound;
  return {
    content: { ...content, inbound_rules, outbound_rules },
    removed: content.inbound_rules.length - inbound_rules.length + before.length - outbound_rules.length,
    kept: opens ? before.length : 0,
  };
}
