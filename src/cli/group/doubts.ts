/** Owns what may be a mistake in a group that is written: labels that no device has, a trial that no device would see, a name that another group has, prefixes with host bits. */
import { labelsIn, type Naming } from '../../client/words/unknown-labels.ts';
import { askAbout, labelDoubts } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { allDevices } from '../lookup/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { devicesNamed, devicesOf } from '../../organization/of-records.ts';
import { parseSelectors } from '../../policy/fleet/selector-text.ts';
import { scopeText } from '../session/trial-options.ts';
import { allGroups } from '../lookup/group.ts';
import { maskedPrefix } from '../../policy/address.ts';
import type { StoredRule } from '../../policy/rule.ts';

/** Labels that `before` names too are not asked about again. */
export async function askAboutLabels(session: Session, group: Naming, before: Naming = {}): Promise<void> {
  const old = labelsIn([before]);
  const named = [...labelsIn([group])].filter((label) => !old.has(label));
  if (named.length === 0 || !session.isForPeople) return;
  const known = new Set((await allDevices(session)).flatMap(({ labels = [] }) => labels));
  await askAbout(session, labelDoubts(named, known));
}

/** A change of a group that no device would try shows nothing. */
export async function askAboutTrial(session: Session, group: SecurityGroup): Promise<void> {
  const { confirmWithin, on, dryRun } = session.values;
  if (confirmWithin === undefined || dryRun === true || !session.isForPeople) return;
  const [devices, groups] = await Promise.all([allDevices(session), allGroups(session)]);
  const users = devicesOf(group.id, devices, groups);
  const scope = on === undefined ? { fault: '' } : parseSelectors(scopeText(on));
  const tried = 'fault' in scope ? users : devicesNamed(scope, users);
  const text = `no device would try this change: none that has the group is in its scope.`;
  if (tried.length === 0) await askAbout(session, [{ text, asks: true }]);
}

/** Asks on a terminal. Scripts get the server's warning after the write. */
export async function askAboutName(
  session: Session,
  name: string,
  { id, user_id }: Partial<Pick<SecurityGroup, 'id' | 'user_id'>>,
): Promise<void> {
  if (!session.isForPeople || !session.terminal.isInteractive || session.values.dryRun === true) return;
  const same = (await allGroups(session)).filter(
    (group) => group.group_name === name && group.user_id === user_id && group.id !== id,
  );
  const whose = user_id === undefined ? 'the organization' : 'the same user';
  await askAbout(
    session,
    same
      .slice(0, 1)
      .map((group) => ({ text: `${whose} already has a group with the name ${name} (${group.id}).`, asks: true })),
  );
}

function hostBitNotes(rules: readonly StoredRule[]): readonly string[] {
  const ranges = new Set(rules.flatMap(({ ip_ranges }) => ip_ranges ?? []));
  return [...ranges].flatMap((range) => {
    const meant = maskedPrefix(range);
    return meant === undefined ? [] : [`${range} means ${meant}: the bits after the prefix are ignored.`];
  });
}

export function sayHostBits(session: Session, rules: readonly StoredRule[]): void {
  for (const note of hostBitNotes(rules)) session.say(note);
}
