/** Owns the interface of membership in the store. */
import type { MemberRole } from '../../../organization/decide/caller.ts';
import type { DeviceId, GroupId } from '../../../policy/ids.ts';
import type { MemberRecord } from './records.ts';

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
