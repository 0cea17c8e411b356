/** Owns the packet as the policy sees it: the input of `decide`. */
import type { Direction, Family } from './rule.ts';

/** The transport of a packet. ICMP types are numbers as on the wire; `other` is any IP protocol besides. */
export type Transport =
  | { readonly kind: 'tcp' | 'udp'; readonly dport: number }
  | { readonly kind: 'icmp' | 'icmpv6'; readonly type: number }
  | { readonly kind: 'other'; readonly protocol: number };

export interface Packet {
  readonly direction: Direction;
  readonly family: Family;
  /** The far end: source address of an inbound, destination address of an outbound packet (reference 1.2 (4)). */
  readonly remote: bigint;
  readonly transport: Transport;
  /** IPv6 hop limit or IPv4 time to live, where it matters: neighbour discovery must arrive with 255, multicast listener discovery with 1. */
  readonly hopLimit?: number;
  /**
   * Only where the device forwards the packet: by a connection whose destination was redirected (then `dport` is the port
   * that it was made to) or whose source was translated, or without any translation.
   */
  readonly forwarded?: 'redirected' | 'translated' | 'routed';
  /** Connection-tracking state; absent means `new`. */
  readonly state?: 'new' | 'established' | 'related';
}
