/** Owns invitations in the store: they expire, end with the ownership of their inviter, and are used once. */
import { rightRoles, type MemberRole } from '../../../organization/decide/caller.ts';
import type { Timestamp } from '../../../organization/decide/records.ts';
import {
  parseInvitationId,
  parseOrganizationId,
  parseUserId,
  type OrganizationId,
  type InvitationId,
  type UserId,
} from '../../../policy/ids.ts';
import { type Actor } from '../data/actor.ts';
import type { AuditNote } from '../data/audit.ts';
import { refuse, StoreError } from '../../problems.ts';
import { pageValues, statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { inOrganization } from '../write/transaction.ts';
import { admitMember, shownMember } from './members.ts';
import type { Page } from '../data/page.ts';

export interface InvitationRecord {
  readonly id: InvitationId;
  readonly organization_id: OrganizationId;
  readonly issuer: string;
  /** In the form of `readEmail`; this or `username`. */
  readonly email?: string;
  readonly username?: string;
  readonly role: MemberRole;
  readonly invited_by: UserId;
  readonly created_at: Timestamp;
  readonly expires_at: Timestamp;
}

export type NewInvitation = Pick<InvitationRecord, 'issuer' | 'email' | 'username' | 'role'> & {
  readonly expires_at: Date;
};

/** What an identity provider says about a person, as far as an invitation may name it. */
export interface ProvenIdentity {
  readonly issuer: string;
  /** Verified by the provider, in the form of `readEmail`. */
  readonly email?: string | undefined;
  /** The name at the provider exactly as it wrote it, not the username here. */
  readonly name?: string | undefined;
}

interface InvitationRow {
  readonly id: string;
  readonly org_id: string;
  readonly issuer: string;
  readonly claim: 'email' | 'username';
  readonly value: string;
  readonly role: MemberRole;
  readonly invited_by: string;
  readonly created_at: string;
  readonly expires_at: string;
}

const columns = 'id, org_id, issuer, claim, value, role, invited_by, created_at, expires_at';

/** Values: id, organization, issuer, claim, value, role, inviter, now, end. */
const insertInvitation = statement<InvitationRow>(
  'insert_invitation',
  `INSERT INTO invitations (${columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
   ON CONFLICT (issuer, claim, value, org_id) DO UPDATE SET role = EXCLUDED.role, invited_by = EXCLUDED.invited_by,
     created_at = EXCLUDED.created_at, expires_at = EXCLUDED.expires_at
   RETURNING ${columns}`,
);
/** Values: organization, now, after this id, limit. */
const listInvitations = statement<InvitationRow>(
  'list_invitations',
  `SELECT ${columns} FROM invitations WHERE org_id = $1 AND expires_at > $2 AND id > $3 ORDER BY id LIMIT $4`,
);
const countInvitations = statement<{ count: number }>(
  'count_invitations',
  'SELECT count(*) AS count FROM invitations WHERE org_id = $1',
);
/** Values: organization, now. */
const forgetExpired = statement<never>(
  'forget_expired_invitations',
  'DELETE FROM invitations WHERE org_id = $1 AND expires_at <= $2',
);
/** Values: organization, id. */
const deleteInvitation = statement<InvitationRow>(
  'delete_invitation',
  `DELETE FROM invitations WHERE org_id = $1 AND id = $2 RETURNING ${columns}`,
);
/** Values: issuer, e-mail or null, name or null, now. */
const invitationsFor = statement<InvitationRow>(
  'invitations_for',
  `SELECT ${columns} FROM invitations WHERE issuer = $1 AND expires_at > $4
     AND (claim = 'email' AND value = $2 OR claim = 'username' AND value = $3) ORDER BY id LIMIT 100`,
);
/** Under the organization's lock: it may have been revoked, replaced or used since it was read. Values: id, role, inviter, now. */
const takeInvitation = statement<{ id: string }>(
  'take_invitation',
  'DELETE FROM invitations WHERE id = $1 AND role = $2 AND invited_by = $3 AND expires_at > $4 RETURNING id',
);

/** Whether the person was removed from the organization, or left it, after the invitation. Values: organization, user, since when. */
const removedSince = statement<{ id: string }>(
  'removed_since',
  `SELECT id FROM audit WHERE org_id = $1 AND operation = 'removeMember' AND subject_id = $2 AND at > $3 LIMIT 1`,
);

const record = ({ id, org_id, claim, value, issuer, role, invited_by, ...times }: InvitationRow): InvitationRecord => ({
  id: parseInvitationId(id),
  organization_id: parseOrganizationId(org_id),
  issuer,
  [claim]: value,
  role,
  invited_by: parseUserId(invited_by),
  ...times,
});

const nameOf = ({ email, username }: InvitationRecord): string => email ?? username ?? '';

/** The inviter admits the person: the inviter's ownership is checked in the transaction, and the audit names the person. */
const inviterOf = ({ invited_by }: InvitationRow, audit: AuditNote): Actor => {
  const user_id = parseUserId(invited_by);
  const right = { user_id, credential: { kind: 'none' as const }, roles: rightRoles.owner };
  return { user_id, right, audit: { ...audit, operation: 'addMember', fields: ['invitation'] } };
};

export function invitationsIn(context: Context) {
  const { reads, writes } = context;

  /** Leaves out an invitation that has ended since it was read, or that no longer admits anyone. */
  const acceptOne = async (row: InvitationRow, user: string, audit: AuditNote): Promise<void> => {
    const org = parseOrganizationId(row.org_id);
    try {
      await inOrganization(
        context,
        org,
        inviterOf(row, audit),
        async (locked) => {
          const removed = await locked.tx.run(removedSince, [org, user, row.created_at]);
          if (removed.length > 0) return refuse({ code: 'not_a_member' });
          const taken = await locked.tx.run(takeInvitation, [row.id, row.role, row.invited_by, now(context)]);
          if (taken.length === 0) return refuse({ code: 'not_found', what: 'invitation' });
          return admitMember(context, locked, { user_id: parseUserId(user) }, row.role);
        },
        shownMember,
      );
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      // Left in place, it would bring a member back who is removed later; or who was removed since.
      if (error.code === 'already_member' || error.code === 'not_a_member')
        await writes.run(deleteInvitation, [org, row.id]);
    }
  };

  return {
    /** The invitation of the same person in the same organization is replaced. */
    async invite(
      org: OrganizationId,
      by: Actor,
      { issuer, email, username, role, expires_at }: NewInvitation,
    ): Promise<InvitationRecord> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          await tx.run(forgetExpired, [org, now(context)]);
          const limit = context.quotas.members;
          if (((await tx.run(countInvitations, [org]))[0]?.count ?? 0) >= limit)
            return refuse({ code: 'limit_reached', what: 'members', limit });
          const claim = email === undefined ? ['username', username ?? ''] : ['email', email];
          const times = [now(context), expires_at.toISOString()];
          const values = [context.newId(), org, issuer, ...claim, role, by.user_id, ...times];
          const [row] = await tx.run(insertInvitation, values);
          return row === undefined ? refuse({ code: 'unavailable' }) : record(row);
        },
        (made) => ({ subject_id: made.id, name: nameOf(made), after: made }),
      );
    },

    /** Without those that have expired. */
    async list(org: OrganizationId, query?: Page): Promise<readonly InvitationRecord[]> {
      return (await reads.run(listInvitations, [org, now(context), ...pageValues(query)])).map((row) => record(row));
    },

    async revoke(org: OrganizationId, by: Actor, id: InvitationId): Promise<InvitationRecord> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          const [row] = await tx.run(deleteInvitation, [org, id]);
          return row === undefined ? refuse({ code: 'not_found', what: 'invitation' }) : record(row);
        },
        (gone) => ({ subject_id: id, name: nameOf(gone), before: gone }),
      );
    },

    /**
     * Makes the user a member wherever an invitation names this identity, and ends that invitation in the same transaction. There the invitation
     * must still exist and the inviter must still be an owner. An invitation that cannot be accepted is left out, and nothing fails.
     */
    async accept({ issuer, email, name }: ProvenIdentity, user: UserId, audit: AuditNote): Promise<void> {
      if (email === undefined && name === undefined) return;
      const rows = await reads.run(invitationsFor, [issuer, email ?? null, name ?? null, now(context)]);
      for (const row of rows) await acceptOne(row, user, audit);
    },
  };
}
