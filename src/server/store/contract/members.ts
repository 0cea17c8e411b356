/** Owns the interface of membership in the store. */
import type { DeviceId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Actor } from './actor.ts';
import type { Page } from './page.ts';
import type { MemberRecord, MemberRole } from './records.ts';

/** What a request's guard needs to know of a user in an organization. */
export interface Membership {
  /** Undefined for somebody who is not a member. */
  readonly role: MemberRole | undefined;
}

export interface RemoveMember {
  /** The devices become the actor's instead of being deleted, without the groups that go with the member. */
  readonly keepDevices?: boolean;
  /** Also where such a device is left with no group of its own, so that the default group applies to it. */
  readonly detach?: boolean | undefined;
}

/** A member who is gone, and what went along. */
export interface RemovedMember {
  readonly member: MemberRecord;
  readonly deleted_devices: readonly DeviceId[];
  readonly deleted_groups: readonly GroupId[];
  readonly kept_devices: readonly DeviceId[];
  /** Of the last change that this was; undefined where nothing went along. */
  readonly revision: number | undefined;
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
  /** An owner who is made one has to accept. `last_owner` when the organization would have none who has. */
  setRole(org: OrganizationId, by: Actor, user: UserId, role: MemberRole): Promise<MemberRecord>;
  /** From then on the owner counts. `not_an_owner`; `limit_reached` where the user owns as many organizations as it may. */
  accept(org: OrganizationId, by: Actor, user: UserId): Promise<MemberRecord>;
  /**
   * Deletes the member's devices (their tokens too), groups and enrollment keys in this organization, with events and audit entries, in one
   * transaction. `last_owner` when the organization would have none who has accepted; `would_open` when a device that is kept would fall back to the default
   * group.
   */
  remove(org: OrganizationId, by: Actor, user: UserId, options?: RemoveMember): Promise<RemovedMember>;
}
