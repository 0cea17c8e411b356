/**
 * Owns the check of a right inside the transaction that needs it. The same SQL checks single-statement writes,
 * transaction writes and reports, so that no write happens with a right that has ended (reference 5 (15)).
 *
 * The order comes from locks. Roles, memberships and records change under the organization's lock, which every write of
 * the organization takes. Tokens and sessions end outside of it. The answer to such an end waits for `Writer.drain`:
 * afterwards no write that saw the right before can still commit. Writes outside of organizations lock the rows of the
 * credential and of the user.
 */
import { rightRoles } from '../../../organization/decide/caller.ts';
import { type Actor, type Right, type RightSubject } from '../data/actor.ts';
import { refuse, StoreError } from '../../problems.ts';
import type { Runner } from '../postgres/connection.ts';
import { found, inOrg, statement, type Statement, type Value } from '../postgres/sql.ts';

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

/** Whether a role that the right of a row `n` names is left. `role`: of its actor in the organization; `whose`: the user whom the record belongs to. */
const isAllowed = (n: string, role: string, whose: string): string => `(
  ${names(n, 'server', 'member', 'enrollmentKey', 'ownDevice')}
  OR ${role} = 'owner' AND (${names(n, 'owner')} OR ${names(n, 'ownerOfOwn')} AND ${whose} IS NULL)
  OR ${names(n, 'owningUser')} AND ${whose} = ${n}.actor)`;

/** Whether an allowed write `n` takes the role of an owner that its actor `m` has not accepted. What the actor may do without that role accepts nothing. */
const takesPendingRole = (n: string, whose: string): string => `(m.is_pending
  AND NOT ${names(n, 'server', 'administrator', 'enrollmentKey', 'ownDevice')}
  AND (${names(n, 'member')} OR ${names(n, 'owningUser')} AND ${whose} = ${n}.actor) IS NOT TRUE)`;

/** Joins the membership of the actor as `m`. */
export const actorsMembership = 'LEFT JOIN members m ON m.org_id = $1 AND m.user_id = n.actor';

/** The branches for a report `n` of a device, which names its organization itself and has no lock. */
export const reportRefusals = `
  WHEN ${hasEnded('n')} THEN 'credential_ended'
  WHEN (${names('n', 'server')} OR ${names('n', 'ownDevice')} AND n.token IS NOT NULL
    OR ${names('n', 'owningUser')} AND ${found('devices d', 'd.id = n.id AND d.user_id = n.actor')}) IS NOT TRUE THEN 'forbidden'`;

type RightRefusal = 'credential_ended' | 'not_a_member' | 'forbidden';

/** An organization's head under its lock, and whether the right of a transaction write holds. */
export interface OpenedHead {
  readonly revision: number;
  readonly version: number;
  readonly has_tests: boolean;
  readonly refusal: RightRefusal | null;
  /** The write takes the role of an owner that its actor has not accepted. */
  readonly accepts: boolean;
}

type Place = Exclude<RightSubject['kind'], 'token'> | 'organization';

interface PlaceText {
  readonly join: string;
  readonly whose: string;
  readonly missing: string;
  readonly isOwnMembership?: string;
}

/** A record that is missing has no owner: then the write itself says that there is none, or makes it and is judged again. */
const places: Readonly<Record<Place, PlaceText>> = {
  organization: { join: '', whose: 'NULL::uuid', missing: 'false' },
  user: { join: '', whose: 'n.id', missing: 'false', isOwnMembership: 'n.id = n.actor' },
  device: { join: `LEFT JOIN devices s ON s.id = n.id AND ${inOrg('s')}`, whose: 's.user_id', missing: 's.id IS NULL' },
  group: {
    join: `LEFT JOIN security_groups s ON s.id = n.id AND ${inOrg('s')}`,
    whose: 's.user_id',
    missing: 's.id IS NULL',
  },
  enrollment_key: {
    join: `LEFT JOIN enrollment_keys s ON s.id = n.id AND ${inOrg('s')}`,
    whose: 's.user_id',
    missing: 's.id IS NULL',
  },
};

/** The write itself takes one of the key's uses, and is refused when none is left. */
const isGoodKey = found('enrollment_keys k', `k.id = n.key AND ${inOrg('k')} AND k.expires_at > n.at`);
const isAdministrator = found('users u', 'u.id = n.administrator AND u.is_admin AND u.removed_at IS NULL');

/** Under the lock. Values: organization, actor, roles, token, session, now, subject, enrollment key, the right's user. */
function openHead(place: Place): Statement<OpenedHead> {
  const { join, whose, missing, isOwnMembership = 'false' } = places[place];
  return statement(
    `open_head_for_${place}`,
    `SELECT h.revision, h.version, h.has_tests, CASE
       WHEN ${hasEnded('n')} OR (n.key IS NOT NULL AND NOT ${isGoodKey}) THEN 'credential_ended'
       WHEN m.role IS NULL THEN 'not_a_member'
       WHEN ${missing} THEN NULL
       WHEN ${names('n', 'administrator')} AND ${isAdministrator} THEN NULL
       WHEN ${isAllowed('n', 'm.role', whose)} IS NOT TRUE THEN 'forbidden' END AS refusal,
       (${takesPendingRole('n', whose)} AND NOT (${isOwnMembership})) IS TRUE AS accepts
     FROM heads h CROSS JOIN (SELECT $2::uuid AS actor, $3::integer AS may, $4::bytea AS token, $5::uuid AS session, $6::timestamptz AS at,
       $7::uuid AS id, $8::uuid AS key, $9::uuid AS administrator) AS n ${actorsMembership} ${join} WHERE h.org_id = $1`,
  );
}

const openings: { readonly [Name in Place]: Statement<OpenedHead> } = {
  organization: openHead('organization'),
  user: openHead('user'),
  device: openHead('device'),
  group: openHead('group'),
  enrollment_key: openHead('enrollment_key'),
};

/** For a write that judges its right itself. */
const openAny = statement<OpenedHead>(
  'open_head',
  'SELECT h.revision, h.version, h.has_tests, NULL AS refusal, false AS accepts FROM heads h WHERE h.org_id = $1',
);
export const openingOfAny: Opening = { statement: openAny, values: [] };

const isOwner = statement<never>(
  'is_owner_in_transaction',
  `SELECT 1 FROM members WHERE org_id = $1 AND user_id = $2 AND role = 'owner'`,
);

/** Throws where policy tests are to be skipped for somebody who is no owner now. */
export async function checkSkip(tx: Runner, org: string, { user_id }: Actor): Promise<void> {
  if ((await tx.run(isOwner, [org, user_id])).length === 0) refuse({ code: 'forbidden' });
}

/** What opens a transaction write: the statement that judges its right, and the values after the organization. */
export interface Opening {
  readonly statement: Statement<OpenedHead>;
  readonly values: readonly Value[];
}

export function openingOf({ user_id, right }: Actor, at: string): Opening {
  const { subject, credential } = right;
  checkTime(right, at);
  const { may, token, session } = rightItem(right);
  const key = credential.kind === 'enrollment_key' ? credential.id : null;
  const place = subject === undefined || subject.kind === 'token' ? 'organization' : subject.kind;
  return {
    statement: openings[place],
    values: [user_id, may, token, session, at, subject?.id ?? null, key, right.user_id ?? null],
  };
}

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

export const refusedRight = (code: RightRefusal): StoreError => new StoreError({ code });
