/** Owns the interface of security groups in the store. */
import type { GroupId, UserId } from '../../../policy/ids.ts';
import type { NewTrial } from './trials.ts';
import type { GroupRecord, Stored } from './records.ts';

/**
 * The reader: a user sees the organization's groups, its own, and those that a device holds. Undefined means a device's
 * token, which does not have the rights of its user: it does not see the user's own groups that no device holds.
 */
export type GroupReader = UserId | undefined;

/** A write that is taken back unless somebody confirms it. Nothing else changes the record before: `trial_pending`. */
export interface AsTrial {
  readonly trial?: NewTrial | undefined;
}

export interface SavedGroup extends Stored<GroupRecord> {
  /** Whether a guardrail of the organization forbids anything anywhere, as of the write: otherwise no rule can be void. */
  readonly mayBeVoid: boolean;
}

/** Rules of a group that expire at one moment. */
export interface ExpiringRules {
  readonly group_id: GroupId;
  readonly group_name: string;
  /** As it was written. */
  readonly expires_at: string;
  readonly rules: number;
  /** Since when the group has rules that expire then, in milliseconds since the epoch. */
  readonly since: number;
}
