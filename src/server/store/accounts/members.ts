/** Owns members in the store: who belongs to an organization, and in which role. */
import type { MemberRole } from '../../../organization/decide/caller.ts';
import { parseUserId, type UserId, type OrganizationId } from '../../../policy/ids.ts';
import type { Runner } from '../postgres/connection.ts';
import { refuse } from '../../problems.ts';
import { roleOf } from '../schema/fragments.ts';
import { changeOf, type AuditSubject } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { Coalescer, type CoalescedRead } from '../../scheduling/coalescer.ts';
import type { MemberRecord } from '../data/records.ts';
import { pageValues, statement } from '../postgres/sql.ts';
import { removeMember } from './member-removal.ts';
import { accept, endOwnership, makeOwner } from './owners.ts';
import type { Page } from '../data/page.ts';
import type { Actor } from '../data/actor.ts';
import type { Membership, RemoveMember, RemovedMember } from '../data/members.ts';

interface MemberRow {
  readonly user_id: string;
  readonly username: string;
  readonly role: MemberRole;
  readonly is_pending: boolean;
  readonly created_at: string;
}

interface MembershipRow {
  /** Which of the pairs, from 1. */
  readonly n: number;
  readonly role: MemberRole | null;
}

/** Values: organizations and users, in pairs. */
const memberships = statement<MembershipRow>(
  'memberships',
  `SELECT p.n, ${roleOf('p.user_id', 'p.org_id')} AS role
   FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS p (org_id, user_id, n) JOIN organizations o ON o.id = p.org_id`,
);

const select = `
  SELECT m.user_id, u.username, m.role, m.is_pending, m.created_at FROM members m JOIN users u ON u.id = m.user_id`;

/** Values: organization, after this user, limit. */
const listMembers = statement<MemberRow>(
  'list_members',
  `${select} WHERE m.org_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3`,
);
const readMember = statement<MemberRow>('get_member', `${select} WHERE m.org_id = $1 AND m.user_id = $2`);

/** Values: a user's id or null, its name or null. */
const findUser = statement<{ id: string }>(
  'find_user',
  'SELECT id FROM users WHERE (id = $1 OR username = $2) AND removed_at IS NULL FOR KEY SHARE',
);
const countMembers = statement<{ count: number }>(
  'count_members',
  'SELECT count(*) AS count FROM members WHERE org_id = $1',
);
const insertMember = statement<never>(
  'insert_member',
  'INSERT INTO members (org_id, user_id, created_at) VALUES ($1, $2, $3)',
);
const record = ({ user_id, username, role, is_pending, created_at }: MemberRow): MemberRecord => ({
  user_id: parseUserId(user_id),
  username,
  role,
  ...(is_pending && { accepted: false as const }),
  created_at,
});

export async function getMember(tx: Runner, org: string, user: string): Promise<MemberRecord> {
  const [row] = await tx.run(readMember, [org, user]);
  return row === undefined ? refuse({ code: 'not_found', what: 'member' }) : record(row);
}

/** Makes a user a member. `already_member` when it is one, `not_found` when there is no such user. */
export async function admitMember(
  context: Context,
  locked: Locked,
  user: Parameters<Members['add']>[2],
  role: MemberRole,
): Promise<MemberRecord> {
  const { tx, org } = locked;
  const [found] = await tx.run(findUser, 'user_id' in user ? [user.user_id, null] : [null, user.username]);
  if (found === undefined) return refuse({ code: 'not_found', what: 'user' });
  const [already] = await tx.run(readMember, [org, found.id]);
  if (already !== undefined) return refuse({ code: 'already_member' });
  const limit = context.quotas.members;
  if (((await tx.run(countMembers, [org]))[0]?.count ?? 0) >= limit)
    return refuse({ code: 'limit_reached', what: 'members', limit });
  await tx.run(insertMember, [org, found.id, now(context)]);
  if (role === 'owner') await makeOwner(context, locked, found.id);
  return getMember(tx, org, found.id);
}

/** What the audit shows of a new member. */
export const shownMember = ({ user_id, username, role, accepted }: MemberRecord) => ({
  subject_id: user_id,
  name: username,
  after: { user_id, role, ...(accepted !== undefined && { accepted }) },
});

/** Makes a user an owner who has to accept, a member first where it is none. With the entry that the audit gets. */
export async function makeMemberOwner(
  context: Context,
  locked: Locked,
  user_id: UserId,
): Promise<Omit<AuditSubject, 'org_id'> & { readonly operation: 'addMember' | 'updateMember' }> {
  const { tx, org } = locked;
  const [row] = await tx.run(readMember, [org, user_id]);
  if (row === undefined)
    return { operation: 'addMember', ...shownMember(await admitMember(context, locked, { user_id }, 'owner')) };
  if (row.role !== 'owner') await makeOwner(context, locked, user_id);
  const change = changeOf(record(row), await getMember(tx, org, user_id));
  return { operation: 'updateMember', subject_id: user_id, name: row.username, ...change };
}

interface Pair {
  readonly org: string;
  readonly user: string;
}

export function membersIn(context: Context) {
  const { callers, reads, hints } = context;
  const places = new Coalescer<Pair, MembershipRow | undefined>({
    async read(pairs) {
      const rows = await callers.run(memberships, [pairs.map(({ org }) => org), pairs.map(({ user }) => user)]);
      const byNumber = new Map(rows.map((row) => [row.n, row]));
      return pairs.map((_, index) => byNumber.get(index + 1));
    },
    nameOf: ({ org, user }) => `${org} ${user}`,
  });
  const ofBy =
    (ask: CoalescedRead<Pair, MembershipRow | undefined>) =>
    async (org: OrganizationId, user: UserId): Promise<Membership | undefined> => {
      const row = await ask.get({ org, user });
      return row === undefined ? undefined : { role: row.role ?? undefined };
    };
  return {
    /** Undefined when the organization does not exist. */
    of: ofBy(places.immediate),
    batched: { of: ofBy(places.batched) },

    get: (org: OrganizationId, user: UserId): Promise<MemberRecord> => getMember(reads, org, user),

    async list(org: OrganizationId, query?: Page): Promise<readonly MemberRecord[]> {
      return (await reads.run(listMembers, [org, ...pageValues(query)])).map((row) => record(row));
    },

    /** By id or by name. `already_member` when it is one, `not_found` when there is no such user. */
    async add(
      org: OrganizationId,
      by: Actor,
      user: { readonly user_id: UserId } | { readonly username: string },
    ): Promise<MemberRecord> {
      return inOrganization(context, org, by, (locked) => admitMember(context, locked, user, 'member'), shownMember);
    },

    /** An owner who is made one has to accept. `last_owner` when the organization would have none who has. */
    async setRole(org: OrganizationId, by: Actor, user: UserId, role: MemberRole): Promise<MemberRecord> {
      const { after: member } = await inOrganization(
        context,
        org,
        by,
        async (locked) => {
          const before = await getMember(locked.tx, org, user);
          if (before.role === role) return { before, after: before };
          if (role === 'owner') await makeOwner(context, locked, user);
          else await endOwnership(context, locked, user);
          return { before, after: await getMember(locked.tx, org, user) };
        },
        ({ before, after }) => ({
          subject_id: user,
          name: before.username,
          ...changeOf(before, after),
        }),
      );
      return member;
    },

    /** From then on the owner counts. `not_an_owner`; `limit_reached` where the user owns as many organizations as it may. */
    async accept(org: OrganizationId, by: Actor, user: UserId): Promise<MemberRecord> {
      const { after: member } = await inOrganization(
        context,
        org,
        by,
        async (locked) => {
          const before = await getMember(locked.tx, org, user);
          if (before.role !== 'owner') return refuse({ code: 'not_an_owner' });
          if (before.accepted === undefined) return { before, after: before };
          await accept(context, locked, user);
          return { before, after: await getMember(locked.tx, org, user) };
        },
        ({ before }) => ({
          subject_id: user,
          name: before.username,
          ...(before.accepted === undefined
            ? { unchanged: true as const }
            : { before: { accepted: false }, after: { accepted: null } }),
        }),
      );
      return member;
    },

    /**
     * Deletes the member's devices (their tokens too), groups and enrollment keys in this organization, with events and audit entries, in one
     * transaction. `last_owner` when the organization would have none who has accepted; `would_open` when a device that is kept would fall back to the default
     * group.
     */
    async remove(org: OrganizationId, by: Actor, user: UserId, options: RemoveMember = {}): Promise<RemovedMember> {
      await context.models.warm(org);
      const { tokens, ...removed } = await inOrganization(
        context,
        org,
        by,
        async (locked) => {
          const member = await getMember(locked.tx, org, user);
          if (member.role === 'owner') await endOwnership(context, locked, user);
          return { member, ...(await removeMember(context, locked, { by, user, ...options })) };
        },
        ({ member: { username, role } }) => ({ subject_id: user, name: username, before: { user_id: user, role } }),
      );
      if (by.isDryRun !== true)
        hints.tell({ removed_members: [{ organization_id: org, user_id: user }], credentials: tokens });
      return removed;
    },
  };
}

export type Members = ReturnType<typeof membersIn>;
