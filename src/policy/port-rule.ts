/** Owns the input of port maps: one rule's ports with the addresses that it admits. */
import type { Addresses } from './canonical.ts';

/** Ports are 1–65535; any-port rules do not come here. */
export interface PortRule {
  readonly from: number;
  readonly to: number;
  readonly addresses: Addresses;
}
