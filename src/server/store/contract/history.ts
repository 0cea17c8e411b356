/** Owns the interface of the history: every state of a group, and of the fields that decide the policy of a device. */
import type { DeviceId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { GroupOwner, GroupReader } from './groups.ts';
import type { Page, RevisionPage, Rows } from './page.ts';
import type { DevicePolicyRecord, DeviceRecord, GroupRecord, Stored, Timestamp } from './records.ts';

/** One state. A reader who could see the record at that time may see this state. */
export interface State<T> {
  readonly revision: number;
  readonly at: Timestamp;
  /** Of a deletion, the record as last known. */
  readonly type: 'change' | 'delete';
  /** The user who made the change; absent for states from before the history started. */
  readonly user_id?: UserId;
  readonly username?: string;
  /** The server made it, because a time was over. */
  readonly by_server?: true;
  readonly record: T;
}

/** One state of any record, as it was written. */
export interface WrittenState {
  readonly kind: 'device' | 'security-groups';
  readonly id: string;
  readonly revision: number;
  readonly at: Timestamp;
  readonly user_id?: UserId;
  readonly username?: string;
  readonly by_server?: true;
  /** The whole record; absent of a deletion. */
  readonly json?: string;
}

/** What a device was, by its record: its labels and its addresses, and who wrote them. */
export interface IdentityState {
  readonly device_id: DeviceId;
  readonly at: Timestamp;
  readonly labels: readonly string[];
  readonly tunnel_ip: string;
  readonly addresses: readonly string[];
  /** Whether the user who wrote this state is an owner of the organization now. */
  readonly by_owner: boolean;
  /** Whether the device was registered with this state. */
  readonly is_first: boolean;
}

/** An address of a device, and the change since which its record has or had it. */
export interface AddedAddress {
  /** Without the prefix length of a `tunnel_ip`. */
  readonly address: string;
  readonly at: Timestamp;
  /** As of `State`. */
  readonly user_id?: UserId;
  readonly username?: string;
}

export interface StatePage extends Pick<Page, 'limit' | 'bytes'> {
  /** Only states below this revision. */
  readonly below?: number | undefined;
}

export interface History {
  /** Newest first; none where the reader could never see the group. */
  ofGroup(
    org: OrganizationId,
    id: GroupId,
    query: StatePage & { readonly reader: GroupReader },
  ): Promise<Rows<State<GroupRecord>>>;
  ofDevice(org: OrganizationId, id: DeviceId, query?: StatePage): Promise<Rows<State<DevicePolicyRecord>>>;
  /** Every address that the device has or had in its newest 10,000 states, as it was written, each once: who added it last, and when. */
  addressesOf(org: OrganizationId, id: DeviceId): Promise<readonly AddedAddress[]>;
  /** The newest 100 states of each of these devices: of one device after the other, newest first. */
  identitiesOf(org: OrganizationId, ids: readonly DeviceId[]): Promise<readonly IdentityState[]>;
  /** Other devices that have, or had, the host name of this one: of each its newest state under that name, newest first. */
  namesakes(org: OrganizationId, id: DeviceId, query?: StatePage): Promise<Rows<State<DevicePolicyRecord>>>;
  /** The groups at a revision, in the order of ids. Fails with `revision_ahead` or `revision_gone`. */
  groupsAt(
    org: OrganizationId,
    revision: number,
    query: RevisionPage & { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
  ): Promise<Rows<Stored<GroupRecord>>>;
  /**
   * The devices at a revision, in the order of ids: what decides their policy. Other fields are as they were at the last
   * change of these. Fails with `revision_ahead` or `revision_gone`.
   */
  devicesAt(org: OrganizationId, revision: number, query: RevisionPage): Promise<Rows<Stored<DeviceRecord>>>;
  /** All states that were written after a revision, up to another one, in their order: at most this many. */
  between(
    org: OrganizationId,
    span: { readonly after: number; readonly through: number; readonly limit: number },
  ): Promise<readonly WrittenState[]>;
  /** The newest revision that was written up to a time. Fails with `revision_gone` where the history starts later. */
  revisionAt(org: OrganizationId, at: Date): Promise<number>;
  /** One of them; undefined when it did not exist then or the reader could not see it. */
  groupAt(
    org: OrganizationId,
    revision: number,
    id: GroupId,
    reader: GroupReader,
  ): Promise<Stored<GroupRecord> | undefined>;
  /** A group that was deleted, as last known, with its owner and the revision of its deletion. */
  deletedGroup(
    org: OrganizationId,
    id: GroupId,
    reader: GroupReader,
  ): Promise<{ readonly user_id: UserId | undefined; readonly stored: Stored<GroupRecord> } | undefined>;
  /** Deletes states that ended before the retention period. A state that was current at its start is kept, however old it is. */
  forget(): Promise<void>;
}
