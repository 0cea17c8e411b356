/** Owns the data that isolation adds to the policy of one device. */
import type { Address } from '../address.ts';
import type { Members } from '../rule.ts';
import type { Isolation } from './isolation-record.ts';

/** Another device that is isolated, and that this one refuses in both directions. */
export interface RefusedDevice {
  readonly id: string;
  readonly addresses: readonly Address[];
  /** As of `Isolation`. */
  readonly until?: number;
}

export interface PolicyIsolation {
  /** The device itself is isolated. `members` are the addresses of `allow`, once they are looked up. */
  readonly own?: Isolation & { readonly members?: Members };
  /** In the order of their ids. */
  readonly refused: readonly RefusedDevice[];
}
