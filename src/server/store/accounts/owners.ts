/**
 * Owns the owners of an organization: there is always one who has agreed to be one. The organization's record names the
 * one who has been an owner longest.
 */
import { refuse } from '../../problems.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { pauseWebhooksOf } from '../webhooks/deliveries.ts';
import { acceptOwnership } from '../write/pending-ownership.ts';
import { lockNextOwner, lockUser } from '../write/user-lock.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';

/** Whether membership `m` is of an owner without whom nobody who has agreed would own the organization. */
export const isLastOwner = (m: string): string => `(${m}.role = 'owner' AND NOT EXISTS (
  SELECT FROM members o WHERE o.org_id = ${m}.org_id AND o.role = 'owner' AND NOT o.is_pending AND o.user_id <> ${m}.user_id))`;

/** Values: organization, user, now. */
const promote = statement<never>(
  'make_owner',
  `UPDATE members SET role = 'owner', owner_since = $3, is_pending = true WHERE org_id = $1 AND user_id = $2 AND role <> 'owner'`,
);
/** No row: there is no other owner. Values: organization, user, whether the last one may go too. */
const demote = statement<{ user_id: string }>(
  'end_ownership',
  `UPDATE members m SET role = 'member', owner_since = NULL, is_pending = false
   WHERE m.org_id = $1 AND m.user_id = $2 AND ($3::boolean OR NOT ${isLastOwner('m')}) RETURNING m.user_id`,
);
/** Nothing where the record names the owner of longest standing already. Values: organization, now. */
const nameOwner = statement<{ id: string }>(
  'name_owner',
  `WITH longest AS (
     SELECT user_id FROM members WHERE org_id = $1 AND role = 'owner' ORDER BY is_pending, owner_since, user_id LIMIT 1)
   UPDATE organizations o SET owner_id = l.user_id, updated_at = $2 FROM longest l WHERE o.id = $1 AND o.owner_id <> l.user_id RETURNING o.id`,
);

/** Otherwise somebody who is about to lose the ownership could leave a way back. Values: organization, inviter. */
const endInvitations = statement<never>(
  'end_invitations',
  'DELETE FROM invitations WHERE org_id = $1 AND invited_by = $2',
);

/** By somebody else than this user, who has the rights at once and counts once it has accepted. */
export async function makeOwner(context: Context, { tx, org }: Locked, user: string): Promise<void> {
  await lockUser(tx, user);
  await tx.run(promote, [org, user, now(context)]);
}

/** `limit_reached` where the user owns as many organizations as it may. */
export async function accept(context: Context, { tx, org }: Locked, user: string): Promise<void> {
  await lockNextOwner(tx, user, context.quotas);
  await tx.run(acceptOwnership, [org, user, now(context)]);
}

/** Makes an owner a member. Refused for the last one who has agreed to be one, unless somebody takes its place without having been asked. */
export async function endOwnership(
  context: Context,
  locked: Locked,
  user: string,
  { evenLast = false }: { readonly evenLast?: boolean } = {},
): Promise<void> {
  const { tx, org, records } = locked;
  if ((await tx.run(demote, [org, user, evenLast])).length === 0) refuse({ code: 'last_owner' });
  await tx.run(endInvitations, [org, user]);
  await pauseWebhooksOf(context, locked, user);
  if ((await tx.run(nameOwner, [org, now(context)])).length > 0) records.logOrganization();
}
