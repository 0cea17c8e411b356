/** Owns the interface of receipts in the store: what devices report that they enforce. */
import type { DeviceId, OrganizationId } from '../../../policy/ids.ts';
import type { Authority } from './actor.ts';
import type { DeviceStatus } from './records.ts';

export interface NewReceipts {
  /** Each device once, in no order. Some may come again. */
  readonly statuses: readonly DeviceStatus[];
  /** To be given to the next call, so that it neither misses a status nor reads all of them again. */
  readonly through: string;
  /** Another text where a part of the history may have been discarded: then what earlier answers gave proves nothing. */
  readonly history: string;
  /** There are more, from here on. */
  readonly next?: string;
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
}
