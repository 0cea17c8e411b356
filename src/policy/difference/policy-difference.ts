/**
 * Owns the exact difference of two policies of a device: which packets only the one admits, and which only the other.
 *
 * Addresses are swept, so that overlapping rules cost as much as they have borders. The result is a list that people can compare with rules: by ports, each
 * with all of its addresses. It is worked out in steps, and told up to a size: what is beyond it is counted.
 */
import type { EffectivePolicy } from '../effective.ts';
import { mergeRanges, type Range, type RangeSet } from '../range.ts';
import type { Direction } from '../rule.ts';
import { familyDifference, isEvery, type DifferentRange, type Packets } from './admitted.ts';
import { PortAlgebra } from './port-algebra.ts';
import type { PortSpan, Traffic, TrafficChange, TrafficSet } from './traffic.ts';
import { noPorts } from '../digest/port-sets.ts';

export interface PolicyDifference {
  readonly inbound: TrafficChange;
  readonly outbound: TrafficChange;
  /** Entries that are not told because the lists are full. */
  readonly more: { readonly gained: number; readonly lost: number };
  /**
   * Whether the rules mean the same, as equal digests do. Where they do not, there may still be nothing gained or lost: a guardrail forbids what no
   * group admits.
   */
  readonly isSame: boolean;
}

/** Ranges of both families with the packets of each. */
interface Packeted {
  readonly v4: readonly (Range & { readonly packets: Packets })[];
  readonly v6: readonly (Range & { readonly packets: Packets })[];
}

type Addresses = Pick<Traffic, 'v4' | 'v6'>;
type Steps<T> = Generator<undefined, T, undefined>;

/** Address ranges and spans of ports that are told of one difference, all lists together. */
export const mostTold = 200_000;

/** Takes entries as long as there is room, and counts the others. */
class Listing {
  readonly #room: { left: number };
  readonly told: Traffic[] = [];
  more = 0;

  constructor(room: { left: number }) {
    this.#room = room;
  }

  /** `ports` counts the spans before they are listed, which may take more time than all the rest. */
  add(
    protocol: Traffic['protocol'],
    addresses: Addresses,
    ports?: { readonly count: number; readonly list: () => readonly PortSpan[] },
  ): void {
    const size = addresses.v4.length + addresses.v6.length;
    if (size === 0) return;
    if (this.#room.left <= 0) {
      this.more += 1;
      return;
    }
    this.#room.left -= size + (ports?.count ?? 0);
    this.told.push({ protocol, ...(ports && { ports: ports.list() }), ...addresses });
  }
}

const where = ({ v4, v6 }: Packeted, is: (packets: Packets) => boolean): Addresses => ({
  v4: mergeRanges(v4.filter(({ packets }) => is(packets))),
  v6: mergeRanges(v6.filter(({ packets }) => is(packets))),
});

const keyOf = ({ v4, v6 }: Addresses): string => {
  const text = (set: RangeSet): string => set.map(({ first, last }) => `${first}-${last}`).join();
  return `${text(v4)}|${text(v6)}`;
};

/** So many ranges are touched to list traffic by ports; beyond, it is listed by addresses. */
const mostTouched = 200_000;
/** Ranges and ports that are looked at between two pauses. */
const touchedAtOnce = 2_048;

/** The ports at which another set begins; nothing where there are more than so many. */
function* bordersOf(sets: Iterable<number>, ports: PortAlgebra, most: number): Steps<readonly number[] | undefined> {
  const borders = new Set<number>();
  for (const set of sets) {
    // A set has no more borders than twice its spans, and each of its spans begins at another port.
    if (ports.countSpans(set) > most) return undefined;
    for (const { from, to } of ports.spans(set)) borders.add(from).add(to + 1);
    if (borders.size > most) return undefined;
    yield;
  }
  return [...borders].toSorted((a, b) => a - b);
}

/** TCP or UDP: each address with the number of its port set. */
function* addPorts(listing: Listing, protocol: 'tcp' | 'udp', packeted: Packeted, ports: PortAlgebra): Steps<void> {
  const bySet = new Map<number, { v4: Range[]; v6: Range[] }>();
  let size = 0;
  for (const family of ['v4', 'v6'] as const) {
    for (const { first, last, packets } of packeted[family]) {
      if (isEvery(packets) || packets[protocol] === noPorts) continue;
      let some = bySet.get(packets[protocol]);
      if (some === undefined) bySet.set(packets[protocol], (some = { v4: [], v6: [] }));
      some[family].push({ first, last });
      size += 1;
      if (size % touchedAtOnce === 0) yield;
    }
  }
  if (size === 0) return;
  const borders = yield* bordersOf(bySet.keys(), ports, mostTouched / size);
  if (borders === undefined) {
    let touched = 0;
    for (const [set, { v4, v6 }] of bySet) {
      const spans = { count: ports.countSpans(set), list: () => ports.spans(set) };
      listing.add(protocol, { v4: mergeRanges(v4), v6: mergeRanges(v6) }, spans);
      touched += v4.length + v6.length + spans.count;
      if (touched < touchedAtOnce) continue;
      touched = 0;
      yield;
    }
    return;
  }
  const spans = [...bySet].map(([set, addresses]) => ({ spans: ports.spans(set), addresses, at: 0 }));
  const entries = new Map<string, { readonly addresses: Addresses; readonly ports: { from: number; to: number }[] }>();
  for (const [i, from] of borders.entries()) {
    yield;
    const to = (borders[i + 1] ?? 0) - 1;
    const here = spans.filter((each) => {
      while ((each.spans[each.at]?.to ?? Number.POSITIVE_INFINITY) < from) each.at += 1;
      return (each.spans[each.at]?.from ?? Number.POSITIVE_INFINITY) <= from;
    });
    if (here.length === 0) continue;
    const addresses = {
      v4: mergeRanges(here.flatMap((each) => each.addresses.v4)),
      v6: mergeRanges(here.flatMap((each) => each.addresses.v6)),
    };
    const key = keyOf(addresses);
    const known = entries.get(key);
    const last = known?.ports.at(-1);
    if (known === undefined) entries.set(key, { addresses, ports: [{ from, to }] });
    else if (last?.to === from - 1) last.to = to;
    else known.ports.push({ from, to });
  }
  for (const { addresses, ports: own } of entries.values())
    listing.add(protocol, addresses, { count: own.length, list: () => own });
}

function* trafficOf(packeted: Packeted, ports: PortAlgebra, room: { left: number }): Steps<Listing> {
  const listing = new Listing(room);
  const some = (is: (packets: Packets) => boolean): Addresses => where(packeted, (each) => !isEvery(each) && is(each));
  listing.add('any', where(packeted, isEvery));
  yield* addPorts(listing, 'tcp', packeted, ports);
  yield* addPorts(listing, 'udp', packeted, ports);
  const echo = some((packets) => packets.echo);
  listing.add('icmp', { v4: echo.v4, v6: [] });
  listing.add('icmpv6', { v4: [], v6: echo.v6 });
  yield;
  listing.add(
    'other',
    some((packets) => packets.other),
  );
  return listing;
}

const packetedBy = (ranges: readonly DifferentRange[], change: 'gained' | 'lost'): Packeted['v4'] =>
  ranges.map((range) => ({ first: range.first, last: range.last, packets: range[change] }));

/**
 * The exact difference between two policies with resolved peers. Undefined means that the device does not exist; it
 * then admits nothing. The difference excludes what a device's surroundings add (access to its server, neighbour
 * discovery). At most so many ranges and spans are told, and one entry more.
 */
export function* policyDifference(
  before: EffectivePolicy | undefined,
  after: EffectivePolicy | undefined,
  most = mostTold,
): Steps<PolicyDifference> {
  const ports = new PortAlgebra();
  const room = { left: most };
  const more = { gained: 0, lost: 0 };
  let isSame = true;
  function* changeOf(direction: Direction): Steps<TrafficChange> {
    const v4 = yield* familyDifference(before, after, direction, 4, ports);
    const v6 = yield* familyDifference(before, after, direction, 6, ports);
    if (v4.isOther || v6.isOther) isSame = false;
    function* of(change: 'gained' | 'lost'): Steps<TrafficSet> {
      const packeted = { v4: packetedBy(v4.ranges, change), v6: packetedBy(v6.ranges, change) };
      const listing = yield* trafficOf(packeted, ports, room);
      more[change] += listing.more;
      return listing.told;
    }
    return { gained: yield* of('gained'), lost: yield* of('lost') };
  }
  const inbound = yield* changeOf('inbound');
  const outbound = yield* changeOf('outbound');
  return { inbound, outbound, more, isSame };
}
