/**
 * Owns the lock under which a user gets a token, a membership or an organization. It is held until the commit and
 * blocks the user's removal. A write that waited for a removal finds no user. Counts under the lock are exact.
 */
import { refuse } from '../../problems.ts';
import type { Quotas } from '../data/quotas.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';

const lock = statement<{ id: string }>(
  'lock_present_user',
  'SELECT id FROM users WHERE id = $1 AND removed_at IS NULL FOR NO KEY UPDATE',
);
/** Only those that the user has agreed to own. */
const countOwned = statement<{ count: number }>(
  'count_owned_organizations',
  `SELECT count(*) AS count FROM members WHERE user_id = $1 AND role = 'owner' AND NOT is_pending`,
);

export async function lockUser(tx: Runner, user: string): Promise<void> {
  if ((await tx.run(lock, [user])).length === 0) refuse({ code: 'not_found', what: 'user' });
}

/** Whether the user may own one organization more. */
export async function hasRoomToOwn(tx: Runner, user: string, { organizations }: Quotas): Promise<boolean> {
  await lockUser(tx, user);
  const [owned] = await tx.run(countOwned, [user]);
  return (owned?.count ?? 0) < organizations;
}

export async function lockNextOwner(tx: Runner, user: string, quotas: Quotas): Promise<void> {
  if (!(await hasRoomToOwn(tx, user, quotas)))
    refuse({ code: 'limit_reached', what: 'organizations', limit: quotas.organizations });
}
