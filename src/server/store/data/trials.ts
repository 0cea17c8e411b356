/** Owns the interface of trials in the store: changes that are reverted in time unless somebody confirms them (reference 4.15). */
import type { Timestamp } from '../../../organization/decide/records.ts';
import type { DeviceId, GroupId, TrialId, UserId } from '../../../policy/ids.ts';
import type { Selector } from '../../../policy/rule.ts';

/** What makes a write a trial. */
export interface NewTrial {
  /** The write is taken back after so many seconds unless somebody confirms it. */
  readonly confirm_within: number;
  /** The devices that try it; absent: all of them. */
  readonly scope?: readonly Selector[] | undefined;
}

/** The change is being tried; somebody kept it; somebody took it back; its time was over. */
export type TrialState = 'pending' | 'confirmed' | 'reverted' | 'expired';

export interface TrialRecord {
  readonly id: TrialId;
  readonly state: TrialState;
  readonly started_at: Timestamp;
  readonly ends_at: Timestamp;
  /** Who started it. */
  readonly by: UserId;
  readonly scope?: readonly Selector[];
  /** The records that it changed; some may be deleted since. */
  readonly security_groups: readonly GroupId[];
  readonly devices: readonly DeviceId[];
  readonly ended_at?: Timestamp;
  /** Who confirmed or reverted it; absent where the server did by itself. */
  readonly ended_by?: UserId;
  /** The newest revision that it has written. */
  readonly revision: number;
}

/** How a trial is kept or widened. */
export interface KeepTrialOptions {
  /** Also where it leaves devices outside the scope with the default group (`would_open` otherwise). */
  readonly detach?: boolean | undefined;
}

/** What of a trial is taken back. */
export interface RevertTrialOptions {
  /** Only these groups and devices of it (`not_on_trial` where one is none): the rest stays on trial. Absent: everything. */
  readonly records?: readonly string[] | undefined;
}
