/** Owns the warning about labels that no device has. */
import { labelsIn, type Naming } from '../../client/words/unknown-labels.ts';
import { askAbout, labelDoubts } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { allDevices } from './device.ts';

/** Labels that `before` names too are not asked about again. */
export async function askAboutLabels(session: Session, group: Naming, before: Naming = {}): Promise<void> {
  const old = labelsIn([before]);
  const named = [...labelsIn([group])].filter((label) => !old.has(label));
  if (named.length === 0 || !session.isForPeople) return;
  const known = new Set((await allDevices(session)).flatMap(({ labels = [] }) => labels));
  await askAbout(session, labelDoubts(named, known));
}
