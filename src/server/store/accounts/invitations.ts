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
import { pageValues } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { countsOf } from '../write/counts.ts';
import { inOrganization } from '../write/transaction.ts';
import { admitMember, shownMember } from './members.ts';
import * as sql from './invitation-statements.ts';
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

const record = ({
  id,
  org_id,
  claim,
  value,
  issuer,
  role,
  invited_by,
  ...times
}: sql.InvitationRow): InvitationRecord => ({
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
const inviterOf = ({ invited_by }: sql.InvitationRow, audit: AuditNote): Actor => {
  const user_id = parseUserId(invited_by);
  const right = { user_id, credential: { kind: 'none' as const }, roles: rightRoles.owner };
  return { user_id, right, audit: { ...audit, operation: 'addMember', fields: ['invitation'] } };
};

export function invitationsIn(context: Context) {
  const { reads, writes } = context;

  /** Leaves out an invitation that has ended since it was read, or that no longer admits anyone. */
  const acceptOne = async (row: sql.InvitationRow, user: string, audit: AuditNote): Promise<void> => {
    const org = parseOrganizationId(row.org_id);
    try {
      await inOrganization(
        context,
        org,
        inviterOf(row, audit),
        async (locked) => {
          const removed = await locked.tx.run(sql.removedSince, [org, user, row.created_at]);
          if (removed.length > 0) return refuse({ code: 'not_a_member' });
          // Under the organization's lock: it may have been revoked, replaced or used since it was read.
          const [taken] = await locked.tx.run(sql.deleteInvitations, [org, row.id, null, null]);
          const isSame = taken?.role === row.role && taken.invited_by === row.invited_by;
          if (!isSame || taken.expires_at <= now(context)) return refuse({ code: 'not_found', what: 'invitation' });
          return admitMember(context, locked, { user_id: parseUserId(user) }, row.role);
        },
        shownMember,
      );
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      // Left in place, it would bring a member back who is removed later; or who was removed since.
      if (error.code === 'already_member' || error.code === 'not_a_member')
        await writes.run(sql.deleteInvitations, [org, row.id, null, null]);
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
          await tx.run(sql.deleteInvitations, [org, null, now(context), null]);
          const limit = context.quotas.members;
          if ((await countsOf(tx, org)).invitations >= limit)
            return refuse({ code: 'limit_reached', what: 'members', limit });
          const claim = email === undefined ? ['username', username ?? ''] : ['email', email];
          const times = [now(context), expires_at.toISOString()];
          const values = [context.newId(), org, issuer, ...claim, role, by.user_id, ...times];
          const [row] = await tx.run(sql.insertInvitation, values);
          return row === undefined ? refuse({ code: 'unavailable' }) : record(row);
        },
        (made) => ({ subject_id: made.id, name: nameOf(made), after: made }),
      );
    },

    /** Without those that have expired. */
    async list(org: OrganizationId, query?: Page): Promise<readonly InvitationRecord[]> {
      return (await reads.run(sql.listInvitations, [org, now(context), ...pageValues(query)])).map((row) =>
        record(row),
      );
    },

    async revoke(org: OrganizationId, by: Actor, id: InvitationId): Promise<InvitationRecord> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          const [row] = await tx.run(sql.deleteInvitations, [org, id, null, null]);
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
      const rows = await reads.run(sql.invitationsFor, [issuer, email ?? null, name ?? null, now(context)]);
      for (const row of rows) await acceptOne(row, user, audit);
    },
  };
}
