/** Owns the interface of presence: which devices hold a stream on any server, and when each was last seen. */
import type { DeviceId, OrganizationId } from '../../../policy/ids.ts';
import type { Timestamp } from './records.ts';

/** What a process knows of a device. */
export interface PresenceChange {
  readonly device_id: DeviceId;
  /** It holds a stream of this process. */
  readonly connected: boolean;
  /** The stream carries signs of life: the process ends it when they stop, so that the device was heard for as long as it is connected. */
  readonly twoWay: boolean;
  /** How long the device may show no sign before it counts as gone. */
  readonly silenceMs: number;
  /** How long ago it was last heard. */
  readonly heardAgoMs: number;
  /** How long ago its last stream of this process ended, unless because nothing was heard of it. */
  readonly leftAgoMs?: number;
}

export interface DevicePresence {
  /** It holds a stream right now, or did within the last 20 seconds, and its last sign of life is recent. */
  readonly online: boolean;
  /** Its last sign of life. Of a device with a stream that carries signs: since then at least. */
  readonly last_seen_at: Timestamp;
  /** It holds a stream without recent signs: it is online all the same if it has reported its status after this. */
  readonly online_if_reported_after?: Timestamp;
}

export interface Presence {
  /**
   * One write, however many devices are connected: this process lives, has heard every device whose stream carries signs within `heardAgoMs` (undefined:
   * no more is known than before), and knows this of some. True when the process was not known, at its first record or because it was silent
   * for so long that it was given up: then it records all its devices.
   */
  record(process_id: string, heardAgoMs: number | undefined, changes: readonly PresenceChange[]): Promise<boolean>;
  /** Every device of the organization that ever held a stream, by the database's clock. */
  read(org: OrganizationId): Promise<ReadonlyMap<DeviceId, DevicePresence>>;
  /** Takes in what processes left behind that are gone. Safe to run anywhere, any time. */
  forget(): Promise<void>;
}
