/** Owns the interface of devices in the store. */

import type { DeviceFields } from '../../../organization/decide/records.ts';
import type { EnrollmentKeyId, GroupId, UserId } from '../../../policy/ids.ts';

import type { NewTrial } from './trials.ts';
import type { Expected } from './page.ts';
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
