/** Owns the interface of invitations in the store: people who become members when they sign in. */
import type { InvitationId, OrganizationId, UserId } from '../../../../policy/ids.ts';
import type { Actor } from '../actor.ts';
import type { AuditNote } from '../audit.ts';
import type { Page } from '../page.ts';
import type { MemberRole, Timestamp } from '../records.ts';

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

export interface Invitations {
  /** The invitation of the same person in the same organization is replaced. */
  invite(org: OrganizationId, by: Actor, invitation: NewInvitation): Promise<InvitationRecord>;
  /** Without those that have expired. */
  list(org: OrganizationId, query?: Page): Promise<readonly InvitationRecord[]>;
  revoke(org: OrganizationId, by: Actor, id: InvitationId): Promise<InvitationRecord>;
  /**
   * Makes the user a member wherever an invitation names this identity, and ends that invitation in the same transaction. There the invitation
   * must still exist and the inviter must still be an owner. An invitation that cannot be accepted is left out, and nothing fails.
   */
  accept(identity: ProvenIdentity, user: UserId, audit: AuditNote): Promise<void>;
}
