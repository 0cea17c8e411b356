/** Owns the interface of security groups in the store. */
import type { GroupId, UserId } from '../../../policy/ids.ts';
import type { GroupMode, GuardrailKind, Selector, StoredRule } from '../../../policy/rule.ts';
import type { NewTrial } from './trials.ts';
import type { GroupRecord, Stored } from './records.ts';

/**
 * The reader: a user sees the organization's groups, its own, and those that a device holds. Undefined means a device's
 * token, which does not have the rights of its user: it does not see the user's own groups that no device holds.
 */
export type GroupReader = UserId | undefined;

/** Whose groups: the organization's own (the default among them), or one user's. */
export type GroupOwner = 'organization' | UserId;

export interface NewGroup {
  readonly group_name: string;
  readonly group_description: string;
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
  readonly applies_to?: readonly Selector[] | undefined;
  /** Set when the group is made, never changed. */
  readonly guardrail?: GuardrailKind | undefined;
  /** `observe`: watch only. Never on the default group (`application_refused`). */
  readonly mode?: GroupMode | undefined;
}

/** What may be changed of a group. */
export type GroupPatch = Partial<Omit<NewGroup, 'guardrail'>>;

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
