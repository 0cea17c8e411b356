/**
 * Owns the acceptance of an ownership. Whoever was made an owner by somebody else has the rights at once, but counts
 * neither as an owner who stays nor in the own quota of organizations until it accepts (reference 4.4 (10)).
 */
import type { Authority } from '../data/actor.ts';
import type { Quotas } from '../data/quotas.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { auditValue, insertAudit } from './audit-entry.ts';
import { now, type Stamps } from './stamp.ts';
import { hasRoomToOwn } from './user-lock.ts';

const isPendingOwner = statement<never>(
  'is_pending_owner',
  'SELECT 1 FROM members WHERE org_id = $1 AND user_id = $2 AND is_pending',
);
/** Its standing begins now. Values: organization, user, now. */
export const acceptOwnership = statement<{ username: string }>(
  'accept_ownership',
  `UPDATE members m SET is_pending = false, owner_since = $3 FROM users u
   WHERE m.org_id = $1 AND m.user_id = $2 AND m.is_pending AND u.id = m.user_id RETURNING u.username`,
);

export interface OwnershipContext extends Stamps {
  readonly quotas: Quotas;
}

/** Who writes. */
export type Acting = Pick<Authority, 'audit'> & { readonly user_id: string };

/** For the write of somebody who does what only an owner may: that accepts the ownership, in the same transaction. Not where the quota has no room: the write happens, and the ownership stays pending. */
export async function acceptByWriting(
  context: OwnershipContext,
  tx: Runner,
  org: string,
  { user_id, audit }: Acting,
): Promise<void> {
  if ((await tx.run(isPendingOwner, [org, user_id])).length === 0) return;
  if (!(await hasRoomToOwn(tx, user_id, context.quotas))) return;
  const [accepted] = await tx.run(acceptOwnership, [org, user_id, now(context)]);
  if (audit === undefined) return;
  const note = { ...audit, operation: 'acceptMember', fields: undefined };
  await tx.run(insertAudit, [
    auditValue(context, note, {
      subject_id: user_id,
      org_id: org,
      name: accepted?.username,
      before: { accepted: false },
      after: {},
    }),
  ]);
}
