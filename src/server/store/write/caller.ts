/**
 * Owns who writes a record: what holds of the actor under the organization's lock, and whether its right is enough for a record of this owner.
 * For writes that are decided from records; `right.ts` judges the others in SQL by the same rules.
 */
import { rightRoles, type Actor } from '../data/actor.ts';
import type { MemberRole } from '../data/records.ts';
import { refuse } from '../../problems.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { actorsMembership, hasEnded, rightItem } from './right.ts';
import { theServer } from './the-server.ts';

/** The actor as the transaction sees it. */
export interface Caller {
  /** Its credential is gone. */
  readonly has_ended: boolean;
  /** Null: it is no member. */
  readonly role: MemberRole | null;
  /** It is an owner that has not accepted. */
  readonly is_pending: boolean | null;
  /** Whether the user whom a new record is to belong to is a member. */
  readonly is_member: boolean;
  /** Whether the organization forbids anything anywhere. A guardrail always applies by label. */
  readonly forbids: boolean;
}

/** Values: organization, callers as a JSON array. */
const readCallers = statement<Caller & { readonly place: number }>(
  'read_callers',
  `SELECT n.place, ${hasEnded('n')} AS has_ended, m.role, m.is_pending, o.user_id IS NOT NULL AS is_member,
     EXISTS (SELECT FROM security_groups f WHERE f.org_id = $1 AND f.guardrail = 'forbid' AND f.mode = 'enforce') AS forbids
   FROM json_to_recordset($2::json) AS n (place integer, actor uuid, token bytea, session uuid, whose uuid) ${actorsMembership}
   LEFT JOIN members o ON o.org_id = $1 AND o.user_id = n.whose`,
);

interface Asked {
  readonly by: Actor;
  /** Whom a new record is to belong to. */
  readonly whose?: string | undefined;
}

/** In their order. */
export async function callersOf(tx: Runner, org: string, asked: readonly Asked[]): Promise<readonly Caller[]> {
  const items = asked.map(({ by, whose = null }, place) => {
    const { token, session } = rightItem(by.right);
    return { place, actor: by.user_id, token, session, whose };
  });
  const callers: Caller[] = [];
  for (const { place, ...caller } of await tx.run(readCallers, [org, JSON.stringify(items)])) callers[place] = caller;
  return callers;
}

const names = ({ right }: Actor, ...roles: readonly (keyof typeof rightRoles)[]): boolean =>
  roles.some((role) => (right.roles & rightRoles[role]) !== 0);

const isServer = (by: Actor): boolean => names(by, 'server');

/** Throws unless the actor may write at all. The server is no member of any organization. */
export function holdCredential({ user_id }: Actor, { has_ended, role }: Caller): void {
  if (has_ended) refuse({ code: 'credential_ended' });
  if (role === null && user_id !== theServer) refuse({ code: 'not_a_member' });
}

/** Throws unless a role that the right names is left. `whose`: the user whom the record belongs to; null: the organization's. */
export function holdRole(by: Actor, { role }: Caller, whose: string | null): void {
  const isAllowed =
    names(by, 'server', 'member', 'enrollmentKey', 'ownDevice') ||
    (role === 'owner' && (names(by, 'owner') || (names(by, 'ownerOfOwn') && whose === null))) ||
    (names(by, 'owningUser') && whose === by.user_id);
  if (!isAllowed) refuse({ code: 'forbidden' });
}

/** Whether the actor may do what only an owner may. The server itself may do all of it. */
export const isOwner = (by: Actor, { role }: Caller): boolean => role === 'owner' || isServer(by);

/**
 * Whether an allowed write takes the role of an owner that its actor has not accepted. What the actor may do without that role accepts nothing.
 * `asOwner`: it does what only an owner may.
 */
export function takesPendingRole(by: Actor, { is_pending }: Caller, whose: string | null, asOwner: boolean): boolean {
  if (is_pending !== true || names(by, 'server', 'administrator', 'enrollmentKey', 'ownDevice')) return false;
  const mayAnyway = names(by, 'member') || (names(by, 'owningUser') && whose === by.user_id);
  return !mayAnyway || asOwner;
}
