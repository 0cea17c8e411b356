/** Owns the implementation of the user commands. */
import type { User } from '../../api/user.ts';
import { find, list as listAll, users } from '../lookup/resource.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { idColumn } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';

export const list = (session: Session): Promise<void> =>
  listAll(session, users, {
    none: 'There are no users.',
    sortBy: 'username',
    columns: (layout) => [
      { head: 'USERNAME', text: ({ username }) => username },
      idColumn<User>('ID', ({ id }) => id, layout),
      { head: 'RIGHTS', text: ({ is_administrator }) => (is_administrator ? 'administrator' : '') },
      { head: 'CREATED', text: ({ created_at }) => shortTime(created_at) },
    ],
  });

export async function create(session: Session, username: string): Promise<void> {
  const user = await (await session.client()).users.create({ username });
  await session.printRecord(user, `Created user ${user.username} (${user.id}).`);
}

export interface RemoveOptions {
  readonly organizations?: string;
  readonly detach?: true;
}

export async function remove(session: Session, text: string, { organizations, detach }: RemoveOptions): Promise<void> {
  const client = await session.client();
  const found = await find(session, users, text);
  const heir =
    organizations?.startsWith('to:') === true
      ? await find(session, users, organizations.slice('to:'.length))
      : undefined;
  if (organizations !== undefined && organizations !== 'delete' && heir === undefined)
    throw usageError(`--organizations is \`delete\` or \`to:USER\`, not \`${organizations}\``);
  const also =
    organizations === undefined
      ? ''
      : heir === undefined
        ? ' Organizations that it owns alone are deleted, with everything in them.'
        : ` ${heir.username} gets the organizations that it owns alone, and its devices there.`;
  const question = `Delete user ${found.username}, with all its tokens, devices and groups?${also}`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const isDryRun = session.values.dryRun === true;
  const user = await client.users.remove(found.id, {
    ...(organizations !== undefined && { organizations: heir === undefined ? organizations : `to:${heir.id}` }),
    ...(detach === true && { detach }),
    ...(isDryRun && { dry_run: true }),
  });
  if (!isDryRun) session.noteChanged(user.organizations, user.other_organizations);
  const named = (all: readonly { readonly name: string }[]): string => all.map(({ name }) => name).join(', ');
  const { deleted_organizations: gone = [], handed_over_organizations: left = [] } = user;
  return session.printRecord(
    user,
    [
      `${isDryRun ? 'Would delete' : 'Deleted'} user ${user.username} (${user.id}).`,
      ...(gone.length > 0 ? [`Deleted with it: ${named(gone)}.`] : []),
      ...(left.length > 0
        ? [`${heir?.username ?? 'Another user'} owns now, and has yet to accept: ${named(left)}.`]
        : []),
      ...(isDryRun ? ['Nothing was written.'] : []),
    ].join(' '),
  );
}
