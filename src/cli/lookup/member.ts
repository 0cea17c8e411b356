/** Owns the lookup of members, and the names of users for tables and sentences that people read. */
import type { Member } from '../../api/organization.ts';
import { RingfenceError } from '../../client/error.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';

export async function findMember(session: Session, text: string): Promise<Member> {
  const client = await session.client();
  const members = await client.members.list(await session.organization());
  return findOne('member', text, members, ({ user_id, username }) => ({ id: user_id, names: [username] }));
}

/** Returns a user's name by id. A user who is no longer a member stays an id. Output for programs needs no names. */
export async function userNames(session: Session): Promise<(userId: string) => string> {
  if (!session.isForPeople) return (userId) => userId;
  const client = await session.client();
  try {
    const members = await client.members.list(await session.organization());
    const names = new Map<string, string>(members.map(({ user_id, username }) => [user_id, username]));
    return (userId) => names.get(userId) ?? userId;
  } catch (error) {
    // Who may see the thing and not the members reads an id.
    if (error instanceof RingfenceError && error.status === 403) return (userId) => userId;
    throw error;
  }
}
