/** Owns the records of an organization as they are written, and what a decision may see and change of them. */
import type { DeviceId, GroupId, OrganizationId, TrialId, UserId } from '../../policy/ids.ts';
import type { IsolationRecord } from '../../policy/isolation/isolation-record.ts';
import type { GroupMode, GuardrailKind, ListBefore, Selector, StoredRule, Trial } from '../../policy/rule.ts';

/** ISO 8601 in UTC with milliseconds, e.g. `2026-01-31T12:00:00.000Z`. */
export type Timestamp = string;

/** The trial of a record, and its fields before. */
export interface RecordTrial<Before> extends Trial<Before> {
  readonly id: TrialId;
  readonly started_at: Timestamp;
  /** Who started it. */
  readonly by: UserId;
}

/** What all records of a trial carry alike. */
export type StartedTrial = Omit<RecordTrial<never>, 'before'>;

/** What a trial of a group may have changed. */
export interface GroupBefore {
  readonly group_name: string;
  readonly group_description: string;
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
  readonly applies_to: readonly Selector[];
  /** Absent: it enforced. */
  readonly mode?: GroupMode;
}

/** A group's record without its revision, which every state gets by itself. */
export interface GroupContent {
  readonly id: GroupId;
  readonly group_name: string;
  readonly group_description: string;
  readonly org_id: OrganizationId;
  /** Only on a user-owned group. */
  readonly user_id?: UserId;
  /** True on the organization's default group, otherwise absent. */
  readonly is_default?: true;
  /** Devices that have the group without naming it; absent when empty. */
  readonly applies_to?: readonly Selector[];
  /** Only on a guardrail: what it does. */
  readonly guardrail?: GuardrailKind;
  /** Only on a group that is watch only. */
  readonly mode?: GroupMode;
  /** Absent when empty. */
  readonly inbound_rules?: readonly StoredRule[];
  readonly outbound_rules?: readonly StoredRule[];
  /** Only while a change of it is being tried. */
  readonly trial?: RecordTrial<GroupBefore>;
  readonly created_at: Timestamp;
  readonly updated_at: Timestamp;
}

/** What a person or an agent may say about a device, besides its groups. */
export interface DeviceFields {
  readonly public_key: string;
  readonly local_ip: string;
  readonly tunnel_ip: string;
  readonly child_prefix: readonly string[] | null;
  readonly relay: boolean;
  readonly discovery: boolean;
  readonly reflexive_ip4: string;
  readonly endpoint_local_address_ip4: string;
  readonly symmetric_nat: boolean;
  readonly hostname: string;
  /** Its own addresses besides `tunnel_ip`, each as it is printed. */
  readonly addresses: readonly string[];
  /** Sorted. */
  readonly labels: readonly string[];
}

/** A device's record without its revision. */
export interface DeviceContent extends Omit<DeviceFields, 'addresses' | 'labels'> {
  readonly id: DeviceId;
  readonly user_id: UserId;
  readonly organization_id: OrganizationId;
  /** Absent when empty, all three. */
  readonly addresses?: readonly string[];
  readonly labels?: readonly string[];
  readonly security_groups?: readonly GroupId[];
  /** Only while it is isolated. */
  readonly isolated?: IsolationRecord;
  /** Only while a change of its list is being tried. */
  readonly trial?: RecordTrial<ListBefore> & { readonly before: ListBefore };
  readonly created_at: Timestamp;
  readonly updated_at: Timestamp;
}

/** A record as a decision finds it or leaves it. */
export interface RecordState<Content> {
  readonly id: string;
  readonly revision: number;
  /** The wire text before the revision. */
  readonly body: string;
  readonly record: Content;
  /** The user whom it belongs to; null: the organization. */
  readonly owner: string | null;
}

/** Who made a state, and when. */
export interface Made {
  readonly by: string;
  readonly at: Timestamp;
}

/** The records as the decisions so far left them. Each state that is put takes the next revision. */
export interface Draft {
  group(id: string): RecordState<GroupContent> | undefined;
  device(id: string): RecordState<DeviceContent> | undefined;
  /** Whether a device of the organization, or another one than `except`, has this public key. */
  hasKey(publicKey: string, except?: string): boolean;
  countOf(what: 'devices' | 'groups'): number;
  putGroup(group: GroupContent, made: Made): RecordState<GroupContent>;
  putDevice(device: DeviceContent, made: Made): RecordState<DeviceContent>;
  /** Whether this program knows every field of the record: one of a later version is not written, because it would lose the others (reference 4.5 (6)). */
  isKnown(what: 'device' | 'group', record: object): boolean;
}
