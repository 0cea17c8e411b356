/**
 * Owns the owners of an organization: there is always at least one. The organization's record names the one who has
 * been an owner longest.
 */
import { refuse } from '../contract/errors.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { headVersion, logChanges, takeRevision } from '../write/revisions.ts';
import { lockNextOwner } from './user-lock.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';

/** Values: organization, user, now. */
const promote = statement<never>(
  'make_owner',
  `UPDATE members SET role = 'owner', owner_since = $3 WHERE org_id = $1 AND user_id = $2`,
);
/** No row: there is no other owner. Values: organization, user. */
const demote = statement<{ user_id: string }>(
  'end_ownership',
  `UPDATE members m SET role = 'member', owner_since = NULL WHERE m.org_id = $1 AND m.user_id = $2
     AND EXISTS (SELECT FROM members o WHERE o.org_id = $1 AND o.role = 'owner' AND o.user_id <> $2)
   RETURNING m.user_id`,
);
/** Nothing where the record names the owner of longest standing already. Values: organization, now. */
const nameOwner = statement<never>(
  'name_owner',
  `WITH longest AS (
     SELECT user_id FROM members WHERE org_id = $1 AND role = 'owner' ORDER BY owner_since, user_id LIMIT 1),
   changed AS (
     UPDATE organizations o SET owner_id = l.user_id, updated_at = $2 FROM longest l WHERE o.id = $1 AND o.owner_id <> l.user_id
     RETURNING o.id AS org_id, o.id, '{"id":"' || o.id || '"' AS body, ${headVersion}),
   ${takeRevision('changed')}
   ${logChanges({ kind: 'organization', type: 'change', from: 'numbered' })}`,
);

/** Otherwise somebody who is about to lose the ownership could leave a way back. Values: organization, inviter. */
const endInvitations = statement<never>(
  'end_invitations',
  'DELETE FROM invitations WHERE org_id = $1 AND invited_by = $2',
);

export async function makeOwner(context: Context, { tx, org }: Locked, user: string): Promise<void> {
  await lockNextOwner(tx, user, context.quotas);
  await tx.run(promote, [org, user, now(context)]);
}

/** Makes an owner a member. Refused for the only owner. */
export async function endOwnership(context: Context, { tx, org }: Locked, user: string): Promise<void> {
  if ((await tx.run(demote, [org, user])).length === 0) refuse({ code: 'last_owner' });
  await tx.run(endInvitations, [org, user]);
  await tx.run(nameOwner, [org, now(context)]);
}
