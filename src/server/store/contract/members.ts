/** Owns the interface of membership in the store. */
import type { OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Actor } from './actor.ts';
import type { Page } from './page.ts';
import type { MemberRecord } from './records.ts';

/** What a request's guard needs to know of a user in an organization. */
export interface Membership {
  readonly owner_id: UserId;
  readonly is_member: boolean;
}

export interface Members {
  /** Undefined when the organization does not exist. */
  of(org: OrganizationId, user: UserId): Promise<Membership | undefined>;
  get(org: OrganizationId, user: UserId): Promise<MemberRecord>;
  list(org: OrganizationId, query?: Page): Promise<readonly MemberRecord[]>;
  /** By id or by name. `already_member` when it is one, `not_found` when there is no such user. */
  add(
    org: OrganizationId,
    by: Actor,
    user: { readonly user_id: UserId } | { readonly username: string },
  ): Promise<MemberRecord>;
  /**
   * Deletes the member's devices (their tokens too), groups and enrollment keys in this organization, with events, in one transaction.
   * `owner_must_stay` for the owner.
   */
  remove(org: OrganizationId, by: Actor, user: UserId): Promise<MemberRecord>;
}
