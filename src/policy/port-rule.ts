/** Owns what port maps are made of: one rule's ports with whom it admits. */
import type { Addresses } from './canonical.ts';

/** Ports are 1–65535; any-port rules do not come here. */
export interface PortRule {
  readonly from: number;
  readonly to: number;
  readonly addresses: Addresses;
}
