/** Owns the interface of devices in the store. */
import type { DeviceId, EnrollmentKeyId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { IsolationRecord } from '../../../policy/isolation/isolation-record.ts';
import type { Actor } from './actor.ts';
import type { NewTrial } from './change/trials.ts';
import type { Expected, RevisionPage, Rows } from './page.ts';
import type { DeviceFields, DeviceRecord, Stored } from './records.ts';
import type { Digest } from './tokens.ts';

export interface NewDevice {
  /** The device's user: a member. */
  readonly user_id: UserId;
  readonly fields: DeviceFields;
  readonly security_groups: readonly GroupId[];
  /** The device token's digest, stored in the same transaction. */
  readonly token?: { readonly digest: Digest; readonly name: string } | undefined;
  /**
   * Admits the device by this key instead of by the right of `by`. The same transaction takes one use
   * (`enrollment_key_spent` when none is left). The device gets the key's user, the key's labels and, if it names no
   * groups, the key's groups. A deleted group of the key refuses the device (`group_list_invalid`): without that group
   * the device would be open. When the key's user is no longer an owner, a key with labels admits no device
   * (`labels_by_owner`).
   */
  readonly enrollment_key?: EnrollmentKeyId | undefined;
}

export type DevicePatch = Partial<DeviceFields> & {
  readonly security_groups?: readonly GroupId[];
  /** Null lifts the isolation. */
  readonly isolated?: IsolationRecord | null;
};

export interface UpdateDeviceOptions extends Expected {
  /** The list is taken back unless somebody confirms it. Another list is refused before: `trial_pending`. */
  readonly trial?: NewTrial | undefined;
  /** Also where new labels, or a list of groups that are all watch only, leave the device with no group, so that the default group applies to it (`would_open` otherwise). */
  readonly detach?: boolean | undefined;
}

export interface MoveDeviceOptions extends Expected {
  /** Also where the device is left with no group, so that the default group applies to it (`would_open` otherwise). */
  readonly detach?: boolean | undefined;
}

/**
 * Only an owner may change labels (`labels_by_owner`), and the addresses of a device that has labels or is isolated
 * (`address_by_owner`). Anybody who may change the device may repeat the current value. Only an owner may isolate a
 * device or delete an isolated one (`isolated_by_owner`).
 */
export interface Devices {
  list(org: OrganizationId, query?: RevisionPage): Promise<Rows<Stored<DeviceRecord>>>;
  /** The devices of one member. */
  ofUser(org: OrganizationId, user: UserId): Promise<readonly DeviceId[]>;
  get(org: OrganizationId, id: DeviceId): Promise<Stored<DeviceRecord>>;
  /** Devices by their ids. Those that are gone are absent. */
  find(org: OrganizationId, ids: readonly DeviceId[]): Promise<readonly Stored<DeviceRecord>[]>;
  create(org: OrganizationId, by: Actor, device: NewDevice): Promise<Stored<DeviceRecord>>;
  update(
    org: OrganizationId,
    by: Actor,
    id: DeviceId,
    patch: DevicePatch,
    options?: UpdateDeviceOptions,
  ): Promise<Stored<DeviceRecord>>;
  /**
   * Gives the device, with its tokens, to another user, who must be a member when the write commits (`not_found`, `member`). The groups of the old user
   * leave its list. While its list is on trial: `trial_pending`.
   */
  move(
    org: OrganizationId,
    by: Actor,
    id: DeviceId,
    to: UserId,
    options?: MoveDeviceOptions,
  ): Promise<Stored<DeviceRecord>>;
  /** Its tokens go with it. */
  delete(org: OrganizationId, by: Actor, id: DeviceId, options?: Expected): Promise<Stored<DeviceRecord>>;
}
