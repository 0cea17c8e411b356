/**
 * Owns what of a right the database knows, and the right to writes outside of organizations and to reports. No write happens with a right that has ended
 * (reference 5 (15)); the right to a write in an organization is judged by `caller.ts`.
 *
 * The order comes from locks. Roles, memberships and records change under the organization's lock, which every write of
 * the organization takes. Tokens and sessions end outside of it. The answer to such an end waits for `Writer.drain`:
 * afterwards no write that saw the right before can still commit. Writes outside of organizations lock the rows of the
 * credential and of the user.
 */
import { rightRoles } from '../../../organization/decide/caller.ts';
import { type Right } from '../data/actor.ts';
import { refuse } from '../../problems.ts';
import type { Runner } from '../postgres/connection.ts';
import { found, statement } from '../postgres/sql.ts';

const bytes = (hex: string): string => `\\x${hex}`;

/** That the credential's time is not over; what the database knows of it is checked there. */
export function checkTime({ credential: { expires_at } }: Right, at: string): void {
  if (expires_at !== undefined && Date.parse(expires_at) <= Date.parse(at)) refuse({ code: 'credential_ended' });
}

/** The values of a write `n` that carry its right, beside `actor`, `at` and `id`. Without them a write is refused. */
export function rightItem({ credential, roles }: Right) {
  return {
    may: roles,
    token: credential.kind === 'token' ? bytes(credential.digest) : null,
    session: credential.kind === 'session' ? credential.id : null,
  };
}

/** A token's scope, expiry and device never change, so the guard's word on them still holds. It ends by losing its digest, or with its row. */
const isGoodToken = (n: string): string => found('tokens t', `t.digest = ${n}.token`);
const isGoodSession = (n: string): string => found('sessions s', `s.id = ${n}.session`);

/** Whether the credential of a row `n` has ended. */
export const hasEnded = (n: string): string =>
  `(${n}.token IS NOT NULL AND NOT ${isGoodToken(n)} OR ${n}.session IS NOT NULL AND NOT ${isGoodSession(n)})`;

/** Whether the right of a row `n` names one of these roles. */
const names = (n: string, ...roles: readonly (keyof typeof rightRoles)[]): string =>
  `${n}.may & ${roles.reduce((sum, role) => sum | rightRoles[role], 0)} <> 0`;

/** The branches for a report `n` of a device, which names its organization itself and has no lock. */
export const reportRefusals = `
  WHEN ${hasEnded('n')} THEN 'credential_ended'
  WHEN (${names('n', 'server')} OR ${names('n', 'ownDevice')} AND n.token IS NOT NULL
    OR ${names('n', 'owningUser')} AND ${found('devices d', 'd.id = n.id AND d.user_id = n.actor')}) IS NOT TRUE THEN 'forbidden'`;

const judge = `(
  $2 & ${rightRoles.anyUser} <> 0 OR $2 & ${rightRoles.administrator} <> 0 AND u.is_admin
  OR $2 & ${rightRoles.owningUser} <> 0 AND u.id = $3::uuid) IS TRUE AS is_allowed`;
type RightCheck = { readonly is_allowed: boolean };

/** Values: user, roles, whose the subject is, and the credential. The rows stay as they are until the commit. */
const lockUser = statement<RightCheck>(
  'lock_right_of_user',
  `SELECT ${judge} FROM users u WHERE u.id = $1 AND u.removed_at IS NULL FOR KEY SHARE OF u`,
);
const lockToken = statement<RightCheck>(
  'lock_right_of_token',
  `SELECT ${judge} FROM users u JOIN tokens t ON t.user_id = u.id
   WHERE u.id = $1 AND u.removed_at IS NULL AND t.digest = $4 AND t.device_id IS NULL AND t.scope = 'full' AND (t.expires_at > $5) IS NOT FALSE
   FOR KEY SHARE OF u, t`,
);
const lockSession = statement<RightCheck>(
  'lock_right_of_session',
  `SELECT ${judge} FROM users u JOIN sessions s ON s.user_id = u.id
   WHERE u.id = $1 AND u.removed_at IS NULL AND s.id = $4 AND s.expires_at > $5 FOR KEY SHARE OF u, s`,
);
/** Prevents the token from moving to another user before the commit. */
const lockTokenOwner = statement<{ user_id: string }>(
  'lock_token_owner',
  'SELECT user_id FROM tokens WHERE id = $1 FOR UPDATE',
);

/** Checks the right to a write outside of organizations, first in its transaction, and holds it until the commit. */
export async function holdRight(tx: Runner, right: Right, at: string): Promise<void> {
  const { user_id, credential, roles, subject } = right;
  if (roles === rightRoles.server) return;
  checkTime(right, at);
  if (user_id === undefined) return refuse({ code: 'forbidden' });
  const owner = subject?.kind === 'token' ? (await tx.run(lockTokenOwner, [subject.id]))[0]?.user_id : subject?.id;
  const common = [user_id, roles, owner ?? null];
  const [row] =
    credential.kind === 'token'
      ? await tx.run(lockToken, [...common, bytes(credential.digest), at])
      : credential.kind === 'session'
        ? await tx.run(lockSession, [...common, credential.id, at])
        : credential.kind === 'access_token'
          ? await tx.run(lockUser, common)
          : [];
  if (row === undefined) return refuse({ code: 'credential_ended' });
  // A deleted token has no owner. The write then reports that the token does not exist.
  if (!row.is_allowed && !(subject?.kind === 'token' && owner === undefined)) refuse({ code: 'forbidden' });
}
