/** Owns the SQL of invitations. */
import type { MemberRole } from '../../../organization/decide/caller.ts';
import { statement } from '../postgres/sql.ts';

export interface InvitationRow {
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
export const insertInvitation = statement<InvitationRow>(
  'insert_invitation',
  `INSERT INTO invitations (${columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
   ON CONFLICT (issuer, claim, value, org_id) DO UPDATE SET role = EXCLUDED.role, invited_by = EXCLUDED.invited_by,
     created_at = EXCLUDED.created_at, expires_at = EXCLUDED.expires_at
   RETURNING ${columns}`,
);
/** Values: organization, now, after this id, limit. */
export const listInvitations = statement<InvitationRow>(
  'list_invitations',
  `SELECT ${columns} FROM invitations WHERE org_id = $1 AND expires_at > $2 AND id > $3 ORDER BY id LIMIT $4`,
);
/** Null names none. Values: organization, id, those that have expired by then, inviter. */
export const deleteInvitations = statement<InvitationRow>(
  'delete_invitations',
  `DELETE FROM invitations WHERE org_id = $1 AND (id = $2 OR expires_at <= $3 OR invited_by = $4) RETURNING ${columns}`,
);
/** Values: issuer, e-mail or null, name or null, now. */
export const invitationsFor = statement<InvitationRow>(
  'invitations_for',
  `SELECT ${columns} FROM invitations WHERE issuer = $1 AND expires_at > $4
     AND (claim = 'email' AND value = $2 OR claim = 'username' AND value = $3) ORDER BY id LIMIT 100`,
);
/** Whether the person was removed from the organization, or left it, after the invitation. Values: organization, user, since when. */
export const removedSince = statement<{ id: string }>(
  'removed_since',
  `SELECT id FROM audit WHERE org_id = $1 AND operation = 'removeMember' AND subject_id = $2 AND at > $3 LIMIT 1`,
);
