/** Owns the store's refusals: each has a stable code and the data that a caller needs to explain it. */
import type { FailingTest } from './change/policy-tests.ts';
import type { DeviceId, EnrollmentKeyId, GroupId, OrganizationId } from '../../../policy/ids.ts';
import type { Direction } from '../../../policy/rule.ts';
import type { CountedQuota } from './quotas.ts';

/** One bad entry of a device's `security_groups` list. */
export interface GroupListProblem {
  /** Position in the list; -1 when the list as a whole is at fault (`too_many`, `too_many_ranges`). */
  readonly index: number;
  /**
   * `unknown_group`: no group of the device's user or of the organization has this id (the code is the same for absent
   * groups and for groups of other users and organizations); `default_group`: the default is implied by an empty list;
   * `duplicate`: named before in the same list; `too_many`: more entries than the phase allows; `too_many_ranges`: the
   * groups name more address ranges together than a device may have; `guardrail`: it applies by label and never by
   * list.
   */
  readonly code: 'unknown_group' | 'default_group' | 'duplicate' | 'guardrail' | 'too_many' | 'too_many_ranges';
  readonly group?: GroupId;
  /** With `too_many`: how many entries the phase allows; with `too_many_ranges`: how many ranges. */
  readonly allowed?: number;
  /** With `too_many_ranges`: how many there are. */
  readonly ranges?: number;
}

export type StoreProblem =
  /** Absent, or not visible to the reader, or of another organization. */
  | {
      readonly code: 'not_found';
      readonly what:
        | 'organization'
        | 'device'
        | 'group'
        | 'user'
        | 'member'
        | 'token'
        | 'enrollment_key'
        | 'webhook'
        | 'change_set'
        | 'trial'
        | 'invitation';
    }
  /** The acting user is not (or no longer) a member of the organization at the moment of the commit. */
  | { readonly code: 'not_a_member' }
  /**
   * At the moment of the commit the credential of the write is revoked, rotated or expired, or its user is removed; or no role that the write needs is
   * left.
   */
  | { readonly code: 'credential_ended' | 'forbidden' }
  /** The expected revision is not the current one. */
  | { readonly code: 'precondition_failed'; readonly revision: number }
  /** The phase allows no further group. */
  | { readonly code: 'phase_forbids' }
  | { readonly code: 'public_key_taken' }
  /** Labels are set and changed by owners only, and so are the addresses of a device that has labels. */
  | { readonly code: 'labels_by_owner' | 'address_by_owner' }
  /** Only owners delete an isolated device. */
  | { readonly code: 'isolated_by_owner' }
  | { readonly code: 'username_taken' }
  /** An identity provider vouches for a user who was removed here. */
  | { readonly code: 'user_removed' }
  | { readonly code: 'already_member' }
  /** Devices have the group, or enrollment keys would give it to devices; all are named. */
  | {
      readonly code: 'group_in_use';
      readonly devices: readonly { readonly id: DeviceId; readonly hostname: string }[];
      /** How devices have it: by their own lists, by label, or both. */
      readonly by: { readonly list: boolean; readonly label: boolean };
      readonly enrollment_keys: readonly { readonly id: EnrollmentKeyId; readonly name: string }[];
    }
  | { readonly code: 'group_list_invalid'; readonly problems: readonly GroupListProblem[] }
  /** A server of a later version wrote fields into the record that this one does not know. Only such a server may change it. */
  | { readonly code: 'newer_record'; readonly what: 'device' | 'group' }
  /** An organization always has an owner who has agreed to be one. `organizations`: of a user who is to be removed, those that it owns alone. */
  | {
      readonly code: 'last_owner';
      readonly organizations?: readonly { readonly id: OrganizationId; readonly name: string }[];
    }
  /** There is no ownership to accept. */
  | { readonly code: 'not_an_owner' }
  /** These devices, and so many more, would be left with the default group. */
  | {
      readonly code: 'would_open';
      readonly devices: readonly { readonly id: DeviceId; readonly hostname: string }[];
      readonly more: number;
    }
  /** These policy tests, and so many more, would fail that do not fail now. */
  | { readonly code: 'policy_test_failed'; readonly tests: readonly FailingTest[]; readonly more: number }
  /** Judging the policy tests takes too much work; the tests of these names take the most. */
  | { readonly code: 'tests_too_costly'; readonly tests: readonly string[] }
  /** The record is on trial: nothing else changes it until the trial ends. */
  | { readonly code: 'trial_pending'; readonly trial?: string | undefined }
  /** The trial is confirmed, reverted or expired, or its time is over. */
  | { readonly code: 'trial_over'; readonly state: 'confirmed' | 'reverted' | 'expired' }
  /** These of the records that were asked for are not on this trial, by their place. */
  | { readonly code: 'not_on_trial'; readonly indexes: readonly number[] }
  /** Devices that try the change would no longer. */
  | { readonly code: 'not_wider' }
  /** The webhook sends nothing until an owner confirms it. */
  | { readonly code: 'webhook_paused' }
  /** It was asked for too often: try again after so many seconds. */
  | { readonly code: 'too_often'; readonly seconds: number }
  /** There are as many as there may be. */
  | { readonly code: 'limit_reached'; readonly what: CountedQuota; readonly limit: number }
  /** A group would name more address ranges than it may, with the direction that the write leaves as it is. */
  | { readonly code: 'too_many_ranges'; readonly limit: number }
  /** Rules name devices that are not in the organization. */
  | { readonly code: 'device_unknown'; readonly devices: readonly DeviceId[] }
  /** Groups apply by label in phase 3 only, and only the organization's own, never the default group, which is never watch only. */
  | {
      readonly code: 'application_refused';
      readonly why: 'phase' | 'user_group' | 'default_group' | 'default_mode';
      /** What of the write asks for it. */
      readonly fields: readonly ('applies_to' | 'guardrail' | 'mode')[];
    }
  /** Devices that hold the group would have more address ranges over all their groups than they may. */
  | {
      readonly code: 'too_many_device_ranges';
      readonly limit: number;
      readonly devices: readonly { readonly id: DeviceId; readonly hostname: string }[];
    }
  /** The organization's head is below this revision. */
  | { readonly code: 'revision_ahead'; readonly head: number }
  /** The history begins later; or, without `oldest`, the revision is above the head or discarded. */
  | { readonly code: 'revision_gone'; readonly oldest?: number }
  /** A part of a change set is refused: which, and why. `index` counts in the list of the set. */
  | {
      readonly code: 'change_refused';
      readonly list: 'security_groups' | 'devices' | 'delete';
      readonly index: number;
      readonly problem: Exclude<StoreProblem, { readonly code: 'change_refused' }>;
    }
  /** A guardrail leaves nothing of these directions. */
  | { readonly code: 'forbids_everything'; readonly directions: readonly Direction[] }
  /** The id of a new group is or was in use, here or elsewhere. */
  | { readonly code: 'group_id_used' }
  /** Records have changed since a change set wrote them, or cannot come back. */
  | {
      readonly code: 'changed_since';
      readonly records: readonly {
        readonly id: string;
        readonly name: string;
        readonly why: 'changed' | 'gone' | 'exists' | 'deleted_device' | 'reverted';
      }[];
    }
  /** The group that is to come back is there, or another organization has a group of this id. */
  | { readonly code: 'group_exists' }
  /** The enrollment key expired, or its uses are spent. */
  | { readonly code: 'enrollment_key_spent' }
  /** A create with this idempotency key has happened. */
  | { readonly code: 'repeated' }
  /** The idempotency key belongs to another request. */
  | { readonly code: 'idempotency_key_reused' }
  /** A text that PostgreSQL cannot keep (a NUL character, or far beyond every limit). */
  | { readonly code: 'invalid_text' }
  /** The database cannot be reached, is starting or read-only. Nothing was written; try again. */
  | { readonly code: 'unavailable' }
  /** The disk of the database is full. Nothing was written. */
  | { readonly code: 'storage_full' }
  /** The write may or may not have happened, or may be lost with the primary: its commit was sent, and not confirmed as durable. */
  | { readonly code: 'outcome_unknown' }
  /** The database was migrated by a later version of this program. */
  | { readonly code: 'schema_too_new'; readonly found: number; readonly known: number }
  /** A fault of ours; the cause is for the log. */
  | { readonly code: 'unexpected' };

export type StoreErrorCode = StoreProblem['code'];

/** The one error that leaves the store. `problem` narrows by `code`; `cause` is for the log, never for the wire. */
export class StoreError extends Error {
  readonly problem: StoreProblem;

  constructor(problem: StoreProblem, options: { readonly cause?: unknown; readonly message?: string } = {}) {
    super(options.message ?? problem.code, 'cause' in options ? { cause: options.cause } : {});
    this.name = 'StoreError';
    this.problem = problem;
  }

  get code(): StoreErrorCode {
    return this.problem.code;
  }
}

export const refuse = (problem: StoreProblem): never => {
  throw new StoreError(problem);
};
