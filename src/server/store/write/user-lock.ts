/**
 * Owns the lock under which a user gets a token, a membership or an organization. It is held until the commit and
 * blocks the user's removal. A write that waited for a removal finds no user. Counts under the lock are exact.
 */
import type { MemberRole } from '../../../organization/decide/caller.ts';
import { refuse } from '../../problems.ts';
import type { Quotas } from '../data/quotas.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';

const lock = statement<{ id: string }>(
  'lock_present_user',
  'SELECT id FROM users WHERE id = $1 AND removed_at IS NULL FOR NO KEY UPDATE',
);
/** An organization that a user belongs to. */
export interface PlaceOfUser {
  readonly id: string;
  readonly name: string;
  readonly role: MemberRole;
  readonly is_pending: boolean;
  /** Nobody else who has agreed owns it. */
  readonly is_last_owner: boolean;
}

/** By their ids. Values: user. */
export const findPlaces = statement<PlaceOfUser>(
  'find_places_of_user',
  `SELECT o.id, o.name, m.role, m.is_pending, m.role = 'owner' AND NOT EXISTS (
     SELECT FROM members l WHERE l.org_id = m.org_id AND l.role = 'owner' AND NOT l.is_pending AND l.user_id <> m.user_id) AS is_last_owner
   FROM members m JOIN organizations o ON o.id = m.org_id WHERE m.user_id = $1 ORDER BY o.id`,
);

export async function lockUser(tx: Runner, user: string): Promise<void> {
  if ((await tx.run(lock, [user])).length === 0) refuse({ code: 'not_found', what: 'user' });
}

/** Whether the user may own one organization more. */
export async function hasRoomToOwn(tx: Runner, user: string, { organizations }: Quotas): Promise<boolean> {
  await lockUser(tx, user);
  const places = await tx.run(findPlaces, [user]);
  // Only those that the user has agreed to own.
  return places.filter(({ role, is_pending }) => role === 'owner' && !is_pending).length < organizations;
}

export async function lockNextOwner(tx: Runner, user: string, quotas: Quotas): Promise<void> {
  if (!(await hasRoomToOwn(tx, user, quotas)))
    refuse({ code: 'limit_reached', what: 'organizations', limit: quotas.organizations });
}
