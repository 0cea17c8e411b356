/** Owns the reading of labels wherever they are used: on devices, in groups and their rules, and in policy tests. */
import type { SecurityGroup } from '../../api/group.ts';
import type { StoredRule } from '../../policy/rule.ts';

export type Labelled = object & { readonly labels?: readonly string[] };

export const labelsIn = (entries: readonly Labelled[] = []): readonly string[] =>
  entries.flatMap(({ labels = [] }) => labels);

export const rulesOf = ({ inbound_rules = [], outbound_rules = [] }: SecurityGroup): readonly StoredRule[] => [
  ...inbound_rules,
  ...outbound_rules,
];
