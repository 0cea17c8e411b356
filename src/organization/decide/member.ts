/**
 * Owns who belongs to an organization and who owns it: there is always an owner who has agreed to be one. Whoever was made an owner by somebody else has the
 * rights at once, but counts neither as an owner who stays nor in its own quota of organizations until it accepts (reference 4.4 (10)).
 */
import type { UserId } from '../../policy/ids.ts';
import type { MemberRole } from './caller.ts';
import type { Timestamp } from './records.ts';
import { refuse } from './refusal.ts';

export interface Member {
  readonly user_id: UserId;
  readonly username: string;
  readonly role: MemberRole;
  /** It is an owner that has not accepted. */
  readonly is_pending: boolean;
  readonly owner_since: Timestamp | null;
  readonly created_at: Timestamp;
}

/** By user: those whom a decision names, and every owner. */
export type Members = ReadonlyMap<string, Member>;

export const memberIn = (members: Members, user: string): Member =>
  members.get(user) ?? refuse({ code: 'not_found', what: 'member' });

export interface Admission {
  readonly at: Timestamp;
  /** How many members there are, and how many there may be. */
  readonly count: number;
  readonly limit: number;
}

export function admitted(
  members: Members,
  user: Pick<Member, 'user_id' | 'username'>,
  { at, count, limit }: Admission,
): Member {
  if (members.has(user.user_id)) refuse({ code: 'already_member' });
  if (count >= limit) refuse({ code: 'limit_reached', what: 'members', limit });
  return { ...user, role: 'member', is_pending: false, owner_since: null, created_at: at };
}

/** Made an owner by somebody else. */
export const promoted = (member: Member, at: Timestamp): Member =>
  member.role === 'owner' ? member : { ...member, role: 'owner', is_pending: true, owner_since: at };

/** Its standing begins now. */
export function accepted(member: Member, at: Timestamp): Member {
  if (member.role !== 'owner') refuse({ code: 'not_an_owner' });
  return member.is_pending ? { ...member, is_pending: false, owner_since: at } : member;
}

/** Whether nobody else who has agreed owns the organization. */
export const isLastOwner = (members: Members, user: string): boolean =>
  members.get(user)?.role === 'owner' &&
  ![...members.values()].some(({ role, is_pending, user_id }) => role === 'owner' && !is_pending && user_id !== user);

/** Refused for the last one who has agreed to be one, unless somebody takes its place without having been asked. */
export function demoted(members: Members, member: Member, evenLast: boolean): Member {
  if (!evenLast && isLastOwner(members, member.user_id)) refuse({ code: 'last_owner' });
  return { ...member, role: 'member', is_pending: false, owner_since: null };
}

/** Whom the organization's record names: the owner of longest standing. */
export function namedOwner(members: Members): UserId | undefined {
  const standing = ({ is_pending, owner_since, user_id }: Member): string =>
    `${is_pending ? 'pending' : 'accepted'} ${owner_since ?? 'z'} ${user_id}`;
  const owners = [...members.values()].filter(({ role }) => role === 'owner');
  return owners.toSorted((a, b) => (standing(a) < standing(b) ? -1 : 1))[0]?.user_id;
}
