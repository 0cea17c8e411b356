/** Owns the implementation of the user commands. */
import type { User } from '../../api/user.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { idColumn } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';

export async function list(session: Session): Promise<void> {
  const users = await (await session.client()).users.list();
  await session.printList(users, {
    none: 'There are no users.',
    sortBy: 'username',
    columns: (layout) => [
      { head: 'USERNAME', text: ({ username }) => username },
      idColumn<User>('ID', ({ id }) => id, layout),
      { head: 'RIGHTS', text: ({ is_administrator }) => (is_administrator ? 'administrator' : '') },
      { head: 'CREATED', text: ({ created_at }) => shortTime(created_at) },
    ],
  });
}

export async function create(session: Session, username: string): Promise<void> {
  const user = await (await session.client()).users.create({ username });
  await session.printRecord(user, `Created user ${user.username} (${user.id}).`);
}

export async function remove(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const users = await client.users.list();
  const found = findOne('user', text, users, ({ id, username }) => ({ id, names: [username] }));
  const question = `Delete user ${found.username}, with all its tokens, devices and groups?`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const user = await client.users.remove(found.id);
  session.noteChanged(user.organizations, user.other_organizations);
  return session.printRecord(user, `Deleted user ${user.username} (${user.id}).`);
}
