/** Owns the type of a set of traffic: packets in one canonical list. */
import type { RangeSet } from '../range.ts';

/**
 * What kind of packets. `any`: every protocol. `icmp`, `icmpv6`: echo request and reply. `other`: every protocol except TCP, UDP and
 * echo.
 */
export type TrafficProtocol = 'any' | 'tcp' | 'udp' | 'icmp' | 'icmpv6' | 'other';

/** Both ends inclusive. 0 to 65535 are all ports. */
export interface PortSpan {
  readonly from: number;
  readonly to: number;
}

/** Packets of one protocol to these ports, whose far end is in these sets. */
export interface Traffic {
  readonly protocol: TrafficProtocol;
  /** Ascending and disjoint, no two adjacent. Only with TCP and UDP. */
  readonly ports?: readonly PortSpan[];
  readonly v4: RangeSet;
  readonly v6: RangeSet;
}

/**
 * No packet is in two entries, and equal sets of packets have equal lists. By protocol; of TCP and UDP, entries differ in their
 * addresses, so that what one rule admits is one entry where no other rule overlaps it.
 */
export type TrafficSet = readonly Traffic[];

export interface TrafficChange {
  readonly gained: TrafficSet;
  readonly lost: TrafficSet;
}
