/** Owns the interface of the guard's reads: a record and the reader's membership in its organization. */
import type { DeviceId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { GroupReader } from './groups.ts';
import type { Membership } from './members.ts';
import type { DeviceRecord, GroupRecord, Stored } from './records.ts';

/** A thing in an organization, and the reader's place there. */
export interface Visible<T> {
  /** Undefined when the organization does not exist. */
  readonly membership: Membership | undefined;
  /** Undefined when it does not exist or the reader may not see it. `user_id`: the device's user, or the group's owner if it has one. */
  readonly thing: { readonly user_id: UserId | undefined; readonly stored: Stored<T> } | undefined;
}

/** What a path names in an organization. */
export type Subject =
  | { readonly kind: 'group'; readonly org: OrganizationId; readonly id: GroupId }
  | { readonly kind: 'device'; readonly org: OrganizationId; readonly id: DeviceId };

/** What somebody sees of a subject, by its kind. */
export interface VisibleSubject {
  readonly group?: Visible<GroupRecord>;
  readonly device?: Visible<DeviceRecord>;
}

/** What `members.of` and a `get` would say, in one read. */
export interface Access {
  device(org: OrganizationId, user: UserId, id: DeviceId): Promise<Visible<DeviceRecord>>;
  group(
    org: OrganizationId,
    caller: { readonly user: UserId; readonly reader: GroupReader },
    id: GroupId,
  ): Promise<Visible<GroupRecord>>;
}
