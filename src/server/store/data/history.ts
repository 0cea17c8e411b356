/** Owns the interface of the history: every state of a group, and of the fields that decide the policy of a device. */
import type { Timestamp } from '../../../organization/decide/records.ts';
import type { DeviceId, UserId } from '../../../policy/ids.ts';
import type { Page } from './page.ts';

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
  /** All of that as text. */
  readonly json: string;
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
