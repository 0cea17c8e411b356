/** Owns the canonical form of a policy: the meaning of its rules, independent of order, overlap and duplicates. */
import type { GroupId } from './ids.ts';
import type { Range, RangeSet } from './range.ts';
import type { Family, Members } from './rule.ts';

/** What one group admits of an address set. */
export interface Share {
  readonly group: GroupId;
  readonly v4: RangeSet;
  readonly v6: RangeSet;
}

/** Devices that a rule names, and the group whose rule it is. */
export interface NamedPeers {
  readonly group: GroupId;
  /** Equal for peers that always name the same devices. */
  readonly key: string;
  /** Their addresses now, in all places where the key is the same. They come and go, and the form stays the same. */
  readonly members: Members;
}

/** By family, in the order of the device's groups, then of their keys. */
export interface Names {
  readonly v4: readonly NamedPeers[];
  readonly v6: readonly NamedPeers[];
}

/**
 * Addresses of both families. An empty set admits no address; a complete family is one range.
 *
 * `shares` lists which group admits which addresses, so that packets can be counted. The shares are in the order of the
 * device's groups, and together they form the whole set. Where shares overlap, the earlier one counts; a share that
 * earlier ones cover completely is left out. Absent where packets are not counted.
 */
export interface Addresses {
  readonly v4: RangeSet;
  readonly v6: RangeSet;
  readonly shares?: readonly Share[];
  /**
   * Peers whose addresses belong to the set too, kept by name. Never present for a family that is already complete;
   * absent where no peer is named.
   */
  readonly names?: Names;
}

/** A port interval, inclusive, with everybody it admits. */
export interface PortInterval {
  readonly from: number;
  readonly to: number;
  readonly addresses: Addresses;
}

/** Addresses on some ports. */
export interface PortedRange extends Range {
  readonly from: number;
  readonly to: number;
}

/**
 * What one group admits at a node of a tree. `group` is absent where packets are not counted. Ranges are ascending and
 * disjoint, and adjacent ranges differ in their ports.
 */
export interface PortedShare {
  readonly group?: GroupId;
  readonly v4: readonly PortedRange[];
  readonly v6: readonly PortedRange[];
}

/**
 * A node of an interval tree over ports: everything it holds lies between `from` and `to`. With `addresses` it admits
 * them on all its ports; with `shares`, which are in the order of the device's groups, each range on ports of its own.
 */
export type PortNode =
  | PortInterval
  | {
      readonly from: number;
      readonly to: number;
      readonly shares: readonly PortedShare[];
      readonly names?: readonly PortedName[];
    };

/** Named devices on ports of their own. */
export interface PortedName extends NamedPeers {
  readonly family: Family;
  readonly from: number;
  readonly to: number;
}

/**
 * How one transport protocol is admitted by port. `intervals` are ascending and disjoint, and neighbours differ.
 * Where disjoint intervals would explode, a `tree` has the same meaning: a packet is admitted by any node that holds its
 * port and its address. The nodes of a layer are ascending and disjoint; no layer is empty.
 */
export type PortMap =
  | { readonly kind: 'intervals'; readonly intervals: readonly PortInterval[] }
  | { readonly kind: 'tree'; readonly layers: readonly (readonly PortNode[])[] };

export interface TransportPolicy {
  /** Admitted on every port, port 0 included. */
  readonly anyPort: Addresses;
  readonly ports: PortMap;
}

/**
 * The packets that a set of rules matches: these protocols with these addresses and ports. It does not record which
 * rule matched.
 */
export interface MatchSet {
  /** Every protocol. */
  readonly any: Addresses;
  /** Echo request and echo reply: `v4` by ICMP, `v6` by ICMPv6. They part before addresses do, so a share is of one family. */
  readonly echo: Addresses;
  readonly tcp: TransportPolicy;
  readonly udp: TransportPolicy;
}

/**
 * What guardrails refuse of new connections, whatever else is said; absent where that is nothing. Its shares are those
 * of guardrails.
 */
interface Forbidding {
  readonly forbid?: MatchSet;
}

/**
 * One direction. `open` admits everything that is not forbidden and holds no sets for it: outbound without an explicit
 * allow rule (reference 1.2 (9)). `closed` admits what it matches and is not forbidden.
 */
export type DirectionPolicy =
  | (Forbidding & { readonly kind: 'open' })
  | (Forbidding & MatchSet & { readonly kind: 'closed' });

/**
 * Where `any` holds a whole family, `echo`, `tcp` and `udp` hold nothing of it; where `anyPort` does, `ports` do not.
 * Inbound that admits everything is `closed` with both whole families in `any`, without shares unless something is
 * forbidden, and all else empty.
 */
export interface CanonicalPolicy {
  readonly inbound: DirectionPolicy;
  readonly outbound: DirectionPolicy;
}
