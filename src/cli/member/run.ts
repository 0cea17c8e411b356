/** Owns what the member commands do. */
import type { Member } from '../../api/organization.ts';
import { isUuid } from '../../policy/ids.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { renderFields, renderTable, type Column } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';

const columns: readonly Column<Member>[] = [
  { head: 'USERNAME', text: ({ username }) => username },
  { head: 'ID', text: ({ user_id }) => user_id },
  { head: 'ROLE', text: ({ role }) => role },
  { head: 'SINCE', text: ({ created_at }) => shortTime(created_at) },
];

async function all(session: Session): Promise<readonly Member[]> {
  const client = await session.client();
  return client.members.list(await session.organization(), { signal: session.signal });
}

const find = async (session: Session, text: string): Promise<Member> =>
  findOne('member', text, await all(session), ({ user_id, username }) => ({ id: user_id, names: [username] }));

export async function list(session: Session): Promise<void> {
  const members = await all(session);
  await session.print({
    data: members,
    ids: members.map(({ user_id }) => user_id),
    table: (paint) => renderTable(columns, members, paint),
  });
}

export async function show(session: Session, text: string): Promise<void> {
  const member = await find(session, text);
  await session.print({
    data: member,
    ids: [member.user_id],
    table: (paint) =>
      renderFields(
        columns.map(({ head, text: cell }) => [head.toLowerCase(), cell(member)]),
        paint,
      ),
  });
}

export async function add(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const body = isUuid(text) ? { user_id: text } : { username: text };
  const member = await client.members.add(organization, body, { signal: session.signal });
  await session.print({
    data: member,
    ids: [member.user_id],
    table: () => `Added ${member.username} to the organization.\n`,
  });
}

export async function remove(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const { user_id, username } = await find(session, text);
  const question = `Remove ${username}, with all devices and groups of ${username} in the organization?`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const member = await client.members.remove(organization, user_id, { signal: session.signal });
  return session.print({
    data: member,
    ids: [member.user_id],
    table: () => `Removed ${member.username} from the organization.\n`,
  });
}
