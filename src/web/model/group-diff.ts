/**
 * Owns the difference between two states of a group, and the merge of two users' changes. Rules have no order: they are
 * sets.
 */
import { peerKey } from '../../policy/fleet/selector.ts';
import type { GroupMode, Selector, StoredRule } from '../../policy/rule.ts';
import { ruleChanges, rulesWithout, type RuleChanges } from '../../client/words/rule.ts';
import { selectorChip } from './far-end.ts';
import type { Content } from './draft.ts';

const selectorsKey = (selectors: readonly Selector[]): string => selectors.map(peerKey).toSorted().join('\n');

export interface Difference {
  readonly name: readonly [string, string] | undefined;
  readonly description: readonly [string, string] | undefined;
  readonly appliesTo: readonly [string, string] | undefined;
  readonly mode: readonly [string, string] | undefined;
  readonly inbound: RuleChanges;
  readonly outbound: RuleChanges;
  readonly count: number;
}

const pair = (before: string, after: string): readonly [string, string] | undefined =>
  before === after ? undefined : [before, after];

const modeText = ({ mode }: Content): string => (mode === 'observe' ? 'watch only' : 'enforces');

export function difference(before: Content, after: Content): Difference {
  const name = pair(before.group_name, after.group_name);
  const description = pair(before.group_description, after.group_description);
  const texts = (selectors: readonly Selector[]): string => selectors.map(selectorChip).join(', ');
  const appliesTo =
    selectorsKey(before.applies_to) === selectorsKey(after.applies_to)
      ? undefined
      : ([texts(before.applies_to), texts(after.applies_to)] as const);
  const mode = pair(modeText(before), modeText(after));
  const inbound = ruleChanges(before.inbound_rules, after.inbound_rules);
  const outbound = ruleChanges(before.outbound_rules, after.outbound_rules);
  const rules = [inbound, outbound].reduce((sum, { added, removed }) => sum + added.length + removed.length, 0);
  return {
    name,
    description,
    appliesTo,
    mode,
    inbound,
    outbound,
    count: rules + [name, description, appliesTo, mode].filter((change) => change !== undefined).length,
  };
}

function mergeRules(
  base: readonly StoredRule[],
  mine: readonly StoredRule[],
  theirs: readonly StoredRule[],
): readonly StoredRule[] {
  const my = ruleChanges(base, mine);
  const kept = rulesWithout(theirs, my.removed);
  // What both added is added once.
  return [...kept, ...rulesWithout(my.added, ruleChanges(base, theirs).added)];
}

/** Merges both users' changes into the common base. Where both changed the same text, mine wins. The editor does not change the mode. */
export const merge = (base: Content, mine: Content, theirs: Content): Content => ({
  group_name: mine.group_name === base.group_name ? theirs.group_name : mine.group_name,
  group_description:
    mine.group_description === base.group_description ? theirs.group_description : mine.group_description,
  inbound_rules: mergeRules(base.inbound_rules, mine.inbound_rules, theirs.inbound_rules),
  outbound_rules: mergeRules(base.outbound_rules, mine.outbound_rules, theirs.outbound_rules),
  applies_to: selectorsKey(mine.applies_to) === selectorsKey(base.applies_to) ? theirs.applies_to : mine.applies_to,
  ...(theirs.guardrail && { guardrail: theirs.guardrail }),
  ...(theirs.mode && { mode: theirs.mode }),
});

/** The fields of an update. */
export type ContentPatch = Partial<Omit<Content, 'mode'>> & { readonly mode?: GroupMode };

/** Only what is to change, so that nothing else is claimed. */
export function patchOf(before: Content, after: Content): ContentPatch {
  const changed = difference(before, after);
  const any = ({ added, removed }: RuleChanges): boolean => added.length + removed.length > 0;
  return {
    ...(changed.name === undefined ? {} : { group_name: after.group_name }),
    ...(changed.description === undefined ? {} : { group_description: after.group_description }),
    ...(any(changed.inbound) ? { inbound_rules: after.inbound_rules } : {}),
    ...(any(changed.outbound) ? { outbound_rules: after.outbound_rules } : {}),
    ...(changed.appliesTo === undefined ? {} : { applies_to: after.applies_to }),
    ...(changed.mode === undefined ? {} : { mode: after.mode ?? 'enforce' }),
  };
}
