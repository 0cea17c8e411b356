/** Owns the interface of trials in the store: changes that are reverted in time unless somebody confirms them (reference 4.15). */
import type { DeviceId, GroupId, OrganizationId, TrialId, UserId } from '../../../../policy/ids.ts';
import type { Selector } from '../../../../policy/rule.ts';
import type { Actor } from '../actor.ts';
import type { Page } from '../page.ts';
import type { Timestamp } from '../records.ts';

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

/**
 * A user who may write all records of a trial may confirm and widen it. A user who may write one may take it out, and an
 * owner may revert any trial (`policy/trial/right.ts`). The writing transaction checks this (`forbidden`). When several callers end a trial at the same time, one succeeds and the others fail with `trial_over`.
 * A revert never fails because of the state that it restores.
 */
export interface Trials {
  /** Those that are pending. */
  list(org: OrganizationId, page?: Page): Promise<readonly TrialRecord[]>;
  /** Those that began or ended since then, in milliseconds since 1970; for alerts. */
  recent(org: OrganizationId, since: number): Promise<readonly TrialRecord[]>;
  /** Also one that is over, while the history is kept. */
  get(org: OrganizationId, id: TrialId): Promise<TrialRecord>;
  /** The change stays. `trial_over` from `ends_at` on, also where the server has not reverted it yet: agents have. */
  confirm(org: OrganizationId, by: Actor, id: TrialId, options?: KeepTrialOptions): Promise<TrialRecord>;
  /** Everything, or the given part of it, is as it was, with new revisions. */
  revert(org: OrganizationId, by: Actor, id: TrialId, options?: RevertTrialOptions): Promise<TrialRecord>;
  /** More devices try the change; absent: all. `not_wider` where one that tries it would no longer. */
  widen(
    org: OrganizationId,
    by: Actor,
    id: TrialId,
    scope: readonly Selector[] | undefined,
    options?: KeepTrialOptions,
  ): Promise<TrialRecord>;
  /** Reverts a trial whose time is over. False where it is not pending any more, or not over. */
  expire(trial: { readonly org: OrganizationId; readonly id: TrialId }): Promise<boolean>;
}
