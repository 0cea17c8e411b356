/** Owns the warning about labels that no device has. */
import { labelsIn, unknownLabels, type Naming } from '../../client/words/unknown-labels.ts';
import { askAbout, type Doubt } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { allDevices } from './device.ts';

/** A question is worth it where another label is near: that looks like a typing mistake. */
export const labelDoubts = (named: Iterable<string>, known: ReadonlySet<string>): readonly Doubt[] =>
  unknownLabels(named, known).map(({ label, near }) => {
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
  await askAbout(session, labelDoubts(named, known));
}
