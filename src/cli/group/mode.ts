/** Owns the commands that make a group watch only, and let it enforce. */
import type { GroupMode } from '../../policy/rule.ts';
import { findGroup } from '../lookup/group.ts';
import { writeOrAsk } from '../lookup/opening.ts';
import type { Session } from '../session/session.ts';
import { printDryRun } from './dry-run.ts';
import { printChange, updateGroup } from './run.ts';

const modeWords: { readonly [M in GroupMode]: string } = {
  observe: 'is watch only: it decides nothing',
  enforce: 'enforces',
};

/** Makes the group watch only, or lets it enforce. */
export async function setMode(session: Session, text: string, mode: GroupMode): Promise<void> {
  const group = await findGroup(session, text);
  if ((group.mode ?? 'enforce') === mode)
    return session.say(`Group ${group.group_name} already ${modeWords[mode]}. Nothing was changed.`);
  if (session.values.dryRun === true) return printDryRun(session, { before: group, after: { ...group, mode } });
  const client = await session.client();
  const how = { ifMatch: group.revision, ...session.groupQuery };
  const changed = await writeOrAsk(session, (asked) => updateGroup(client, group, { mode }, { ...how, ...asked }));
  return printChange(session, mode === 'observe' ? 'Made watch only:' : 'Enforces now:', changed);
}
