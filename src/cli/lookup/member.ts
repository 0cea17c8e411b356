/** Owns the names of users for tables and sentences that people read. */
import { RingfenceError } from '../../client/error.ts';
import type { Session } from '../session/session.ts';
import { members } from './resource.ts';

/** Returns a user's name by id. A user who is no longer a member stays an id. Output for programs needs no names. */
export async function userNames(session: Session): Promise<(userId: string) => string> {
  if (!session.isForPeople) return (userId) => userId;
  try {
    const names = new Map<string, string>(
      (await members.all(session)).map(({ user_id, username }) => [user_id, username]),
    );
    return (userId) => names.get(userId) ?? userId;
  } catch (error) {
    // Who may see the thing and not the members reads an id.
    if (error instanceof RingfenceError && error.status === 403) return (userId) => userId;
    throw error;
  }
}
