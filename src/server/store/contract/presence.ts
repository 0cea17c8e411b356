/** Owns the interface of presence in the store: which devices hold a stream, on whichever server, and when each was last seen. */
import type { DeviceId, OrganizationId } from '../../../policy/ids.ts';
import type { Timestamp } from './records.ts';

/** Where a device stands: it holds a stream of this process, or no longer does. */
export interface PresenceChange {
  readonly device_id: DeviceId;
  readonly connected: boolean;
}

export interface Seen {
  /** Holds a stream right now, or did within the last 20 seconds. */
  readonly online: boolean;
  readonly last_seen_at: Timestamp;
}

export interface Presence {
  /**
   * One write, however many devices are connected: this process lives, and these devices came or left since its last word. True when the
   * process was not known, at its first word or because it was silent for so long that it was given up: then it tells of all its devices.
   */
  record(process_id: string, changes: readonly PresenceChange[]): Promise<boolean>;
  /** Every device of the organization that ever held a stream, by the database's clock. */
  read(org: OrganizationId): Promise<ReadonlyMap<DeviceId, Seen>>;
  /** Takes in what processes left behind that are gone. Safe to run anywhere, any time. */
  forget(): Promise<void>;
}
