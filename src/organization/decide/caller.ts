/** Owns who may write a record: what holds of the caller at the moment of the decision, and whether its right is enough for a record of this owner. */
import { parseUserId } from '../../policy/ids.ts';
import { refuse } from './refusal.ts';

/** What a caller can be, as bits: a write needs one of those that its right names. */
export const rightRoles = {
  /** An owner of the organization. */
  owner: 1,
  /** An owner of the organization, where the record is the organization's own. */
  ownerOfOwn: 2,
  /** A member of the organization. */
  member: 4,
  /** The user whom the record belongs to: of a group, a device, a token, a key, or the user in the path. */
  owningUser: 8,
  /** The device token of the device in the path. */
  ownDevice: 16,
  enrollmentKey: 32,
  /** An administrator of this server. */
  administrator: 64,
  /** A user who is not removed. */
  anyUser: 128,
  /** The server itself. */
  server: 256,
} as const;

/** Who made a state that no user asked for, such as the end of a trial whose time was over. No user has this id. */
export const theServer = parseUserId('00000000-0000-0000-0000-000000000000');

/** Who writes, and by which right. */
export interface Writer {
  readonly user_id: string;
  /** Bits of `rightRoles`. One of them must hold. */
  readonly right: { readonly roles: number };
}

export type MemberRole = 'owner' | 'member';

/** What holds of the writer now. */
export interface Caller {
  /** Its credential is gone. */
  readonly has_ended: boolean;
  /** Null: it is no member. */
  readonly role: MemberRole | null;
  /** It is an owner that has not accepted. */
  readonly is_pending: boolean | null;
  /** Whose right it is, is an administrator of this server. */
  readonly is_administrator: boolean;
  /** Whether the user whom a new record is to belong to is a member. */
  readonly is_member: boolean;
  /** Whether the organization forbids anything anywhere. A guardrail always applies by label. */
  readonly forbids: boolean;
}

const names = ({ right }: Writer, ...roles: readonly (keyof typeof rightRoles)[]): boolean =>
  roles.some((role) => (right.roles & rightRoles[role]) !== 0);

/** Refuses unless the writer may write at all. The server is no member of any organization. */
export function holdCredential({ user_id }: Pick<Writer, 'user_id'>, { has_ended, role }: Caller): void {
  if (has_ended) refuse({ code: 'credential_ended' });
  if (role === null && user_id !== theServer) refuse({ code: 'not_a_member' });
}

/** Refuses unless a role that the right names is left. `whose`: the user whom the record belongs to; null: the organization's. */
export function holdRole(
  by: Writer,
  { role, is_administrator }: Pick<Caller, 'role' | 'is_administrator'>,
  whose: string | null,
): void {
  const isAllowed =
    names(by, 'server', 'member', 'enrollmentKey', 'ownDevice') ||
    (names(by, 'administrator') && is_administrator) ||
    (role === 'owner' && (names(by, 'owner') || (names(by, 'ownerOfOwn') && whose === null))) ||
    (names(by, 'owningUser') && whose === by.user_id);
  if (!isAllowed) refuse({ code: 'forbidden' });
}

/**
 * Refuses unless the right to a write holds that names this record, and gives whether the write takes the role of an owner that its writer has not accepted.
 * `whose`: the user whom the record belongs to; null: the organization; undefined: there is no such record, which the write itself will say.
 */
export function holdRight(by: Writer, caller: Caller, whose: string | null | undefined): boolean {
  holdCredential(by, caller);
  if (whose !== undefined) holdRole(by, caller, whose);
  return takesPendingRole(by, caller, whose ?? null, false);
}

/** Whether the writer may do what only an owner may. The server itself may do all of it. */
export const isOwner = (by: Writer, { role }: Pick<Caller, 'role'>): boolean => role === 'owner' || names(by, 'server');

/**
 * Whether an allowed write takes the role of an owner that its writer has not accepted. What the writer may do without that role accepts nothing.
 * `asOwner`: it does what only an owner may.
 */
export function takesPendingRole(
  by: Writer,
  { is_pending }: Pick<Caller, 'is_pending'>,
  whose: string | null,
  asOwner: boolean,
): boolean {
  if (is_pending !== true || names(by, 'server', 'administrator', 'enrollmentKey', 'ownDevice')) return false;
  const mayAnyway = names(by, 'member') || (names(by, 'owningUser') && whose === by.user_id);
  return !mayAnyway || asOwner;
}

/** Deleting an isolated device would end its isolation: only owners may (reference 1.5). An administrator of the server removes a user with all devices. */
export function holdIsolated(by: Writer, { role }: Pick<Caller, 'role'>): void {
  if (role !== 'owner' && !names(by, 'administrator', 'server')) refuse({ code: 'isolated_by_owner' });
}
