/** Owns the confirmation before a second group of the same owner gets the same name. */
import type { SecurityGroup } from '../../api/group.ts';
import { allGroups } from '../lookup/group.ts';
import { askAbout } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';

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
