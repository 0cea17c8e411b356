/** Owns the members of an organization in a transaction: what it reads and writes of them, and the acceptance of an ownership by a write. */
import { accepted, memberIn, type Member, type Members } from '../../../organization/decide/member.ts';
import type { Caller } from '../../../organization/decide/caller.ts';
import { parseUserId } from '../../../policy/ids.ts';
import type { Authority } from '../data/actor.ts';
import type { Quotas } from '../data/quotas.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { auditValue, insertAudit } from './audit-entry.ts';
import { now, type Stamps } from './stamp.ts';
import { hasRoomToOwn } from './user-lock.ts';

type MemberRow = Omit<Member, 'user_id'> & { readonly user_id: string };

const select = `SELECT m.user_id, u.username, m.role, m.is_pending, m.owner_since, m.created_at FROM members m JOIN users u ON u.id = m.user_id
  WHERE m.org_id = $1`;

/** Values: organization, users, whether all owners too. */
const findMembers = statement<MemberRow>(
  'find_members',
  `${select} AND m.user_id = ANY ($2::uuid[]) UNION ${select} AND m.role = 'owner' AND $3::boolean`,
);
/** Values: organization, after this user, limit. */
export const listMembers = statement<MemberRow>(
  'list_members',
  `${select} AND m.user_id > $2 ORDER BY m.user_id LIMIT $3`,
);
/** Values: organization, user, role, whether it has to accept, owner since, now. */
const writeMember = statement<never>(
  'write_member',
  `INSERT INTO members (org_id, user_id, role, is_pending, owner_since, created_at) VALUES ($1, $2, $3, $4, $5, $6)
   ON CONFLICT (org_id, user_id) DO UPDATE SET role = excluded.role, is_pending = excluded.is_pending, owner_since = excluded.owner_since`,
);

export const memberOf = (row: MemberRow): Member => ({ ...row, user_id: parseUserId(row.user_id) });

/** These users, where they are members, and all owners. */
export async function loadMembers(
  runner: Runner,
  org: string,
  users: readonly string[],
  { owners = false }: { readonly owners?: boolean } = {},
): Promise<Members> {
  const rows = await runner.run(findMembers, [org, users, owners]);
  return new Map(rows.map((row) => [row.user_id, memberOf(row)]));
}

export async function putMember(tx: Runner, org: string, member: Member): Promise<Member> {
  const { user_id, role, is_pending, owner_since, created_at } = member;
  await tx.run(writeMember, [org, user_id, role, is_pending, owner_since, created_at]);
  return member;
}

export interface OwnershipContext extends Stamps {
  readonly quotas: Quotas;
}

/** Who writes. */
export type Acting = Pick<Authority, 'audit'> & { readonly user_id: string };

/** For the write of somebody who does what only an owner may: that accepts the ownership, in the same transaction. Not where the quota has no room: the write happens, and the ownership stays pending. */
export async function acceptByWriting(
  context: OwnershipContext,
  { tx, org, caller }: { readonly tx: Runner; readonly org: string; readonly caller: Pick<Caller, 'is_pending'> },
  { user_id, audit }: Acting,
): Promise<void> {
  if (caller.is_pending !== true) return;
  const before = memberIn(await loadMembers(tx, org, [user_id]), user_id);
  if (!before.is_pending || !(await hasRoomToOwn(tx, user_id, context.quotas))) return;
  await putMember(tx, org, accepted(before, now(context)));
  if (audit === undefined) return;
  const note = { ...audit, operation: 'acceptMember', fields: undefined };
  await tx.run(insertAudit, [
    auditValue(context, note, {
      subject_id: user_id,
      org_id: org,
      name: before.username,
      before: { accepted: false },
      after: {},
    }),
  ]);
}
