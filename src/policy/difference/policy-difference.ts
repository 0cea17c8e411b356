/**
 * Owns the exact difference of two policies of a device: which packets only the one admits, and which only the other.
 *
 * Addresses are swept as for the digest, so that overlapping rules cost as much as they have borders. The result is a list that people can
 * compare with rules: by ports, each with all of its addresses.
 */
import type { CanonicalPolicy } from '../canonical.ts';
import { mergeRanges, type Range, type RangeSet } from '../range.ts';
import type { Direction } from '../rule.ts';
import { familyDifference, isEvery, type DifferentRange, type Packets } from './admitted.ts';
import { PortAlgebra } from './port-algebra.ts';
import type { PortSpan, Traffic, TrafficChange, TrafficSet } from './traffic.ts';
import { noPorts } from '../digest/port-sets.ts';

export interface PolicyDifference {
  readonly inbound: TrafficChange;
  readonly outbound: TrafficChange;
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

const hasSome = ({ v4, v6 }: Addresses): boolean => v4.length + v6.length > 0;

const where = ({ v4, v6 }: Packeted, is: (packets: Packets) => boolean): Addresses => ({
  v4: mergeRanges(v4.filter(({ packets }) => is(packets))),
  v6: mergeRanges(v6.filter(({ packets }) => is(packets))),
});

const entry = (protocol: Traffic['protocol'], addresses: Addresses, ports?: readonly PortSpan[]): readonly Traffic[] =>
  hasSome(addresses) ? [{ protocol, ...(ports && { ports }), ...addresses }] : [];

const keyOf = ({ v4, v6 }: Addresses): string => {
  const text = (set: RangeSet): string => set.map(({ first, last }) => `${first}-${last}`).join();
  return `${text(v4)}|${text(v6)}`;
};

/** So many ranges are touched to list traffic by ports; beyond, it is listed by addresses. */
const mostTouched = 200_000;

/** The ports at which another set begins. */
function bordersOf(sets: Iterable<number>, ports: PortAlgebra): number[] {
  const borders = new Set<number>();
  for (const set of sets) for (const { from, to } of ports.spans(set)) borders.add(from).add(to + 1);
  return [...borders].toSorted((a, b) => a - b);
}

/** TCP or UDP: each address with the number of its port set. */
function portEntries(protocol: 'tcp' | 'udp', packeted: Packeted, ports: PortAlgebra): readonly Traffic[] {
  const bySet = new Map<number, { v4: Range[]; v6: Range[] }>();
  for (const family of ['v4', 'v6'] as const) {
    for (const { first, last, packets } of packeted[family]) {
      if (isEvery(packets) || packets[protocol] === noPorts) continue;
      let some = bySet.get(packets[protocol]);
      if (some === undefined) bySet.set(packets[protocol], (some = { v4: [], v6: [] }));
      some[family].push({ first, last });
    }
  }
  const borders = bordersOf(bySet.keys(), ports);
  const size = [...bySet.values()].reduce((sum, { v4, v6 }) => sum + v4.length + v6.length, 0);
  if (borders.length * size > mostTouched) {
    return [...bySet].flatMap(([set, { v4, v6 }]) =>
      entry(protocol, { v4: mergeRanges(v4), v6: mergeRanges(v6) }, ports.spans(set)),
    );
  }
  const spans = [...bySet].map(([set, addresses]) => ({ spans: ports.spans(set), addresses, at: 0 }));
  const entries = new Map<string, { readonly addresses: Addresses; readonly ports: { from: number; to: number }[] }>();
  for (const [i, from] of borders.entries()) {
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
  return [...entries.values()].flatMap(({ addresses, ports: own }) => entry(protocol, addresses, own));
}

function trafficOf(packeted: Packeted, ports: PortAlgebra): TrafficSet {
  const some = (is: (packets: Packets) => boolean): Addresses => where(packeted, (each) => !isEvery(each) && is(each));
  const echo = some((packets) => packets.echo);
  return [
    ...entry('any', where(packeted, isEvery)),
    ...portEntries('tcp', packeted, ports),
    ...portEntries('udp', packeted, ports),
    ...entry('icmp', { v4: echo.v4, v6: [] }),
    ...entry('icmpv6', { v4: [], v6: echo.v6 }),
    ...entry(
      'other',
      some((packets) => packets.other),
    ),
  ];
}

const packetedBy = (ranges: readonly DifferentRange[], change: 'gained' | 'lost'): Packeted['v4'] =>
  ranges.map((range) => ({ first: range.first, last: range.last, packets: range[change] }));

/**
 * The exact difference between two policies with resolved peers. Undefined means that the device does not exist; it
 * then admits nothing. The difference excludes what a device's surroundings add (access to its server, neighbour
 * discovery).
 */
export function policyDifference(
  before: CanonicalPolicy | undefined,
  after: CanonicalPolicy | undefined,
): PolicyDifference {
  const ports = new PortAlgebra();
  let isSame = true;
  const changeOf = (direction: Direction): TrafficChange => {
    const v4 = familyDifference(before, after, direction, 4, ports);
    const v6 = familyDifference(before, after, direction, 6, ports);
    if (v4.isOther || v6.isOther) isSame = false;
    const of = (change: 'gained' | 'lost'): TrafficSet =>
      trafficOf({ v4: packetedBy(v4.ranges, change), v6: packetedBy(v6.ranges, change) }, ports);
    return { gained: of('gained'), lost: of('lost') };
  };
  const [inbound, outbound] = [changeOf('inbound'), changeOf('outbound')];
  return { inbound, outbound, isSame };
}
