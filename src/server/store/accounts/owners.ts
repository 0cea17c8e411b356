/** Owns what follows from who owns an organization: the lock of who is made one, and what ends with an ownership. */
import {
  accepted,
  demoted,
  namedOwner,
  promoted,
  type Member,
  type Members,
} from '../../../organization/decide/member.ts';
import type { Context } from '../write/context.ts';
import { pauseWebhooksOf } from '../webhooks/deliveries.ts';
import { putMember } from '../write/members.ts';
import { lockNextOwner, lockUser } from '../write/user-lock.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';
import { deleteInvitations } from './invitation-statements.ts';
import { getOrganization, putOrganization } from './organizations.ts';

/** By somebody else than this user, who has the rights at once and counts once it has accepted. */
export async function makeOwner(context: Context, { tx, org }: Locked, member: Member): Promise<Member> {
  if (member.role === 'owner') return member;
  await lockUser(tx, member.user_id);
  return putMember(tx, org, promoted(member, now(context)));
}

/** `limit_reached` where the user owns as many organizations as it may. */
export async function accept(context: Context, { tx, org }: Locked, member: Member): Promise<Member> {
  const after = accepted(member, now(context));
  if (after === member) return member;
  await lockNextOwner(tx, member.user_id, context.quotas);
  return putMember(tx, org, after);
}

/** Makes an owner a member. `members`: with all owners. */
export async function endOwnership(
  context: Context,
  locked: Locked,
  members: Members,
  member: Member,
  { evenLast = false }: { readonly evenLast?: boolean } = {},
): Promise<Member> {
  const { tx, org, records } = locked;
  const after = await putMember(tx, org, demoted(members, member, evenLast));
  // Otherwise somebody who is about to lose the ownership could leave a way back.
  await tx.run(deleteInvitations, [org, null, null, member.user_id]);
  await pauseWebhooksOf(context, locked, member.user_id);
  const organization = await getOrganization(tx, org);
  const owner_id = namedOwner(new Map([...members, [after.user_id, after]]));
  if (owner_id !== undefined && owner_id !== organization.owner_id) {
    await putOrganization(tx, { ...organization, owner_id, updated_at: now(context) });
    records.logOrganization();
  }
  return after;
}
