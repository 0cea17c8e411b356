/** Owns members in the store: who belongs to an organization, and in which role. */
import type { MemberRole } from '../../../organization/decide/caller.ts';
import { admitted, memberIn, type Member } from '../../../organization/decide/member.ts';
import { parseUserId, type UserId, type OrganizationId } from '../../../policy/ids.ts';
import { refuse } from '../../problems.ts';
import { roleOf } from '../schema/fragments.ts';
import { changeOf, type AuditSubject } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { countsOf } from '../write/counts.ts';
import { listMembers, loadMembers, memberOf, putMember } from '../write/members.ts';
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

/** Values: a user's id or null, its name or null. */
const findUser = statement<{ id: string; username: string }>(
  'lock_new_member',
  'SELECT id, username FROM users WHERE (id = $1 OR username = $2) AND removed_at IS NULL FOR KEY SHARE',
);
const record = ({ user_id, username, role, is_pending, created_at }: Member): MemberRecord => ({
  user_id,
  username,
  role,
  ...(is_pending && { accepted: false as const }),
  created_at,
});

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
  const [members, counts] = await Promise.all([loadMembers(tx, org, [found.id]), countsOf(tx, org)]);
  const admission = { at: now(context), count: counts.members, limit: context.quotas.members };
  const member = await putMember(
    tx,
    org,
    admitted(members, { user_id: parseUserId(found.id), username: found.username }, admission),
  );
  return record(role === 'owner' ? await makeOwner(context, locked, member) : member);
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
  const before = (await loadMembers(tx, org, [user_id])).get(user_id);
  if (before === undefined)
    return { operation: 'addMember', ...shownMember(await admitMember(context, locked, { user_id }, 'owner')) };
  const change = changeOf(record(before), record(await makeOwner(context, locked, before)));
  return { operation: 'updateMember', subject_id: user_id, name: before.username, ...change };
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

    get: async (org: OrganizationId, user: UserId): Promise<MemberRecord> =>
      record(memberIn(await loadMembers(reads, org, [user]), user)),

    async list(org: OrganizationId, query?: Page): Promise<readonly MemberRecord[]> {
      return (await reads.run(listMembers, [org, ...pageValues(query)])).map((row) => record(memberOf(row)));
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
          const members = await loadMembers(locked.tx, org, [user], { owners: true });
          const before = memberIn(members, user);
          const change = async (): Promise<Member> => {
            if (before.role === role) return before;
            return role === 'owner'
              ? makeOwner(context, locked, before)
              : endOwnership(context, locked, members, before);
          };
          return { before: record(before), after: record(await change()) };
        },
        ({ before, after }) => ({ subject_id: user, name: before.username, ...changeOf(before, after) }),
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
          const before = memberIn(await loadMembers(locked.tx, org, [user]), user);
          return { before: record(before), after: record(await accept(context, locked, before)) };
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
          const members = await loadMembers(locked.tx, org, [user], { owners: true });
          const member = memberIn(members, user);
          if (member.role === 'owner') await endOwnership(context, locked, members, member);
          return { member: record(member), ...(await removeMember(context, locked, { by, user, ...options })) };
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
