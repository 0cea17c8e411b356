/** Owns the interface of change sets: several records written in one transaction, and recorded so that they can be reverted as one. */
import type { DevicePatch } from '../../../organization/decide/device.ts';
import type { GroupOwner, GroupPatch, NewGroup } from '../../../organization/decide/group.ts';
import type { Timestamp } from '../../../organization/decide/records.ts';
import type { ChangeSetId, DeviceId, GroupId, UserId } from '../../../policy/ids.ts';
import type { PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import type { Actor } from './actor.ts';
import type { SavedGroup } from './groups.ts';
import type { DeviceRecord, Stored } from './records.ts';
import type { NewTrial } from './trials.ts';

/** What a part of a change set is: its right is that of the operation that would write this record alone. */
export type ChangeOperation =
  | 'createSecurityGroup'
  | 'updateSecurityGroup'
  | 'deleteSecurityGroup'
  | 'updateDevice'
  | 'deleteDevice'
  | 'replacePolicyTests';

interface Part {
  /** Names of the fields that the request gave, for the audit. */
  readonly fields?: readonly string[] | undefined;
  /** The revision that the record must have. */
  readonly if_match?: number | undefined;
}

export type GroupChange =
  /** With an id: one that the organization never had, or with `restores` the one that a deleted group had. */
  | (Part & {
      readonly type: 'create';
      readonly id: GroupId | undefined;
      readonly owner: GroupOwner;
      readonly group: NewGroup;
    })
  | (Part & { readonly type: 'update'; readonly id: GroupId; readonly patch: GroupPatch });

export interface DeviceChange extends Part {
  readonly id: DeviceId;
  readonly patch: DevicePatch;
}

export type Deletion =
  | { readonly kind: 'security-groups'; readonly id: GroupId }
  | { readonly kind: 'device'; readonly id: DeviceId };

/** Every record at most once. */
export interface NewChangeSet {
  readonly groups: readonly GroupChange[];
  readonly devices: readonly DeviceChange[];
  readonly deletes: readonly Deletion[];
  /** The tests that replace the stored ones; absent: those stay. */
  readonly policyTests?: readonly PolicyTest[] | undefined;
  /** The revision that the stored tests must have: `precondition_failed` otherwise. */
  readonly policyTestsRevision?: number | undefined;
}

export interface ChangeSetOptions {
  /** Also where a device is left with no group; deleted groups are taken off the devices that list them. */
  readonly detach?: boolean | undefined;
  /** The whole set is taken back unless somebody confirms it. It deletes nothing, and changes nothing of devices but their lists. */
  readonly trial?: NewTrial | undefined;
}

/** Who writes a change set: the right to each part differs in its roles. */
export interface ChangeSetActor extends Actor {
  readonly rolesFor: (operation: ChangeOperation) => number;
}

export interface WrittenChanges {
  readonly change_id: ChangeSetId;
  /** The organization's head after it. */
  readonly revision: number;
  /** In the order of the set. */
  readonly groups: readonly SavedGroup[];
  /** In the order of the set, then those that lost a deleted group. */
  readonly devices: readonly Stored<DeviceRecord>[];
  readonly deleted: readonly string[];
}

/** One record as a transaction found it and as it left it. */
export interface RecordChange {
  readonly kind: 'security-groups' | 'device' | 'policy-tests';
  /** Of policy tests: the organization. */
  readonly id: string;
  /** Absent: the transaction created the record. */
  readonly before?: Readonly<Record<string, unknown>> | undefined;
  /** Absent: it deleted the record. */
  readonly after?: Readonly<Record<string, unknown>> | undefined;
}

export interface ChangeSetRecord {
  readonly change_id: ChangeSetId;
  readonly at: Timestamp;
  readonly user_id: UserId;
  readonly username: string;
  readonly first_revision: number;
  readonly revision: number;
  readonly reverts?: ChangeSetId;
  readonly reverted_by?: ChangeSetId;
  /** Of a changed record only the fields that differ. */
  readonly changes: readonly RecordChange[];
}
