/** Owns the interface of receipts in the store: what devices say that they have in force, and who waits for them to say it. */
import type { DeviceId, OrganizationId } from '../../../policy/ids.ts';
import type { Authority } from './actor.ts';
import type { DeviceStatus } from './records.ts';

export interface NewReceipts {
  /** Each device once, in no order. Some may come again. */
  readonly statuses: readonly DeviceStatus[];
  /** To be given to the next call, so that it neither misses a status nor reads all of them again. */
  readonly through: string;
  /** There are more, from here on. */
  readonly next?: string;
}

/** Somebody waits until devices have said that what they enforce reflects a revision. */
export interface AwaitedRevision {
  readonly revision: number;
  /** Whose word is missing; absent: most of the organization. */
  readonly devices?: readonly DeviceId[] | undefined;
}

export interface Receipts {
  /**
   * Keeps what a device says about itself; no revision, no event. Reports that come together are one write. The right is checked in the statement
   * that writes.
   */
  report(org: OrganizationId, id: DeviceId, status: unknown, by: Authority): Promise<void>;
  /**
   * What devices said since an earlier answer; without one, what each said last. In parts: of all that follow one another by `next`, the `through` of the first
   * counts. A device that reports meanwhile is met again, here or with the next `through`.
   */
  since(org: OrganizationId, through?: string, next?: string): Promise<NewReceipts>;
  /**
   * Asks all servers to ask these devices for their word at once, and to tell by a hint when devices of this organization report. Lasts
   * some seconds.
   */
  ask(org: OrganizationId, awaited: AwaitedRevision): void;
}
