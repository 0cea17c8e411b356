/** Owns the warning about labels that no device has: a rule with one admits no device, and a group with one applies to none. */
import type { SecurityGroup } from '../../api/group.ts';
import { closestWord } from '../../node/closest-word.ts';
import { askAbout, type Doubt } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { allDevices } from './device.ts';

type Naming = Partial<Pick<SecurityGroup, 'inbound_rules' | 'outbound_rules' | 'applies_to'>>;

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

/** A question is worth it where another label is near: that looks like a typing mistake. */
export const unknownLabels = (named: Iterable<string>, known: ReadonlySet<string>): readonly Doubt[] =>
  [...named]
    .filter((label) => !known.has(label))
    .map((label) => {
      const near = closestWord(label, [...known]);
      const text = `no device has label \`${label}\``;
      return near === undefined
        ? { text: `${text} yet.`, asks: false }
        : { text: `${text}; did you mean \`${near}\`?`, asks: true };
    });

/** Labels that `before` names too are not asked about again. */
export async function askAboutLabels(session: Session, group: Naming, before: Naming = {}): Promise<void> {
  const old = labelsIn([before]);
  const named = [...labelsIn([group])].filter((label) => !old.has(label));
  if (named.length === 0 || !session.isForPeople) return;
  const known = new Set((await allDevices(session)).flatMap(({ labels = [] }) => labels));
  await askAbout(session, unknownLabels(named, known));
}
