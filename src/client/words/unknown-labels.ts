/** Owns labels that no device has: a rule with one admits no device, and a group with one applies to none. */
import type { SecurityGroup } from '../../api/group.ts';
import { closestWord } from './closest-word.ts';

export type Naming = Partial<Pick<SecurityGroup, 'inbound_rules' | 'outbound_rules' | 'applies_to'>>;

const labelsOf = (one: object): readonly string[] =>
  'labels' in one && Array.isArray(one.labels) ? (one.labels as readonly string[]) : [];

/** The labels that groups name in rules and in `applies_to`. */
export const labelsIn = (groups: readonly Naming[]): ReadonlySet<string> =>
  new Set(
    groups.flatMap(({ inbound_rules = [], outbound_rules = [], applies_to = [] }) => [
      ...applies_to.flatMap(labelsOf),
      ...[...inbound_rules, ...outbound_rules].flatMap(({ peers = [] }) => peers.flatMap(labelsOf)),
    ]),
  );

/** A label that nothing has, and the label that may be meant. */
export interface UnknownLabel {
  readonly label: string;
  /** Another label is near: this one looks like a typing mistake. */
  readonly near: string | undefined;
}

export const unknownLabels = (named: Iterable<string>, known: ReadonlySet<string>): readonly UnknownLabel[] =>
  [...named].filter((label) => !known.has(label)).map((label) => ({ label, near: closestWord(label, [...known]) }));
