/**
 * Owns the interval tree over ports: overlapping port rules in a form that never exceeds twice the ranges they name.
 */
import type { Addresses, PortedName, PortedRange, PortedShare, PortNode } from './canonical.ts';
import type { GroupId } from './ids.ts';
import type { PortRule } from './port-rule.ts';
import type { Range } from './range.ts';

/**
 * Groups the rules into nodes. The rules of one node share a port, and every rule is in exactly one node: rules that do
 * not contain the middle port go to the left or right of it, where the same step repeats.
 */
function groupByCommonPort(rules: readonly PortRule[]): PortRule[][] {
  const nodes: PortRule[][] = [];
  const open: (readonly PortRule[])[] = [rules];
  for (let some = open.pop(); some !== undefined; some = open.pop()) {
    if (some.length === 0) continue;
    const middle = middlePort(some);
    const [here, left, right]: [PortRule[], PortRule[], PortRule[]] = [[], [], []];
    for (const rule of some) (rule.to < middle ? left : rule.from > middle ? right : here).push(rule);
    nodes.push(here);
    open.push(left, right);
  }
  return nodes;
}

/** The port in the middle of all ends. */
function middlePort(rules: readonly PortRule[]): number {
  const ends = new Uint16Array(2 * rules.length);
  for (const [i, { from, to }] of rules.entries()) {
    ends[2 * i] = from;
    ends[2 * i + 1] = to;
  }
  return ends.toSorted()[rules.length] as number;
}

/** The borders that ranges have: a piece reaches from one to the next. Ascending, each once. */
function bordersOf(ranges: readonly Range[]): bigint[] {
  const all: bigint[] = [];
  for (const { first, last } of ranges) all.push(first, last + 1n);
  all.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return all.filter((border, i) => border !== all[i - 1]);
}

function placeOf(borders: readonly bigint[], border: bigint): number {
  let [low, high] = [0, borders.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((borders[middle] as bigint) < border) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Span {
  readonly begin: number;
  readonly end: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Gives each place the value of the first span that covers it; 0 where none does. Places that have a value are jumped
 * over, so the work does not grow with how much spans overlap.
 */
function paint(places: number, spans: readonly Span[], value: 'from' | 'to'): Uint16Array {
  const values = new Uint16Array(places);
  const next = new Int32Array(places + 1);
  for (let i = 0; i <= places; i += 1) next[i] = i;
  const free = (place: number): number => {
    let root = place;
    while (next[root] !== root) root = next[root] as number;
    for (let at = place; at !== root;) {
      const after = next[at] as number;
      next[at] = root;
      at = after;
    }
    return root;
  };
  for (const span of spans) {
    for (let at = free(span.begin); at < span.end; at = free(at)) {
      values[at] = span[value];
      next[at] = at + 1;
    }
  }
  return values;
}

const byFirst = (a: Range, b: Range): number => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0);

/** Ascending ranges that are disjoint already, those that touch and have the same ports joined; nothing where any overlap. */
function joinDisjoint(ascending: readonly PortedRange[]): PortedRange[] | undefined {
  const joined: { first: bigint; last: bigint; from: number; to: number }[] = [];
  let before: { first: bigint; last: bigint; from: number; to: number } | undefined;
  for (const { first, last, from, to } of ascending) {
    if (before !== undefined && first <= before.last) return undefined;
    if (before !== undefined && before.from === from && before.to === to && before.last + 1n === first) {
      before.last = last;
    } else {
      before = { first, last, from, to };
      joined.push(before);
    }
  }
  return joined;
}

/**
 * Ranges that overlap become disjoint ones, each with the ports of all that covered it. Since all have a port in common,
 * their ports together are one interval, from the lowest to the highest.
 */
export function disjoint(ranges: readonly PortedRange[]): PortedRange[] {
  const easy = joinDisjoint(ranges.toSorted(byFirst));
  if (easy !== undefined) return easy;
  const borders = bordersOf(ranges);
  const spans = ranges.map(({ first, last, from, to }): Span => ({
    begin: placeOf(borders, first),
    end: placeOf(borders, last + 1n),
    from,
    to,
  }));
  const lowest = paint(
    borders.length,
    spans.toSorted((a, b) => a.from - b.from),
    'from',
  );
  const highest = paint(
    borders.length,
    spans.toSorted((a, b) => b.to - a.to),
    'to',
  );
  const pieces: PortedRange[] = [];
  for (const [place, first] of borders.entries()) {
    const [from, to, end] = [lowest[place] ?? 0, highest[place] ?? 0, borders[place + 1]];
    if (from > 0 && end !== undefined) pieces.push({ first, last: end - 1n, from, to });
  }
  return joinDisjoint(pieces) ?? [];
}

const sharesOf = (addresses: Addresses): readonly PortedSource[] => addresses.shares ?? [addresses];
type PortedSource = Pick<Addresses, 'v4' | 'v6'> & { readonly group?: GroupId };

/** What the rules of one node admit, group by group. */
function toShares(rules: readonly PortRule[], order: readonly GroupId[]): PortedShare[] {
  const byGroup = new Map<GroupId | undefined, { v4: PortedRange[]; v6: PortedRange[] }>();
  for (const { from, to, addresses } of rules) {
    for (const { group, v4, v6 } of sharesOf(addresses)) {
      if (v4.length + v6.length === 0) continue;
      let share = byGroup.get(group);
      if (share === undefined) byGroup.set(group, (share = { v4: [], v6: [] }));
      for (const { first, last } of v4) share.v4.push({ first, last, from, to });
      for (const { first, last } of v6) share.v6.push({ first, last, from, to });
    }
  }
  const places = byGroup.size < 2 ? undefined : new Map(order.map((group, place) => [group, place]));
  const placeOfGroup = (group: GroupId | undefined): number => (group && places?.get(group)) ?? -1;
  return [...byGroup]
    .toSorted(([a], [b]) => placeOfGroup(a) - placeOfGroup(b))
    .map(([group, { v4, v6 }]) => ({ ...(group !== undefined && { group }), v4: disjoint(v4), v6: disjoint(v6) }));
}

/** The devices that rules of one node name: since all rules have a port in common, the ports of each are one interval. */
function toNames(rules: readonly PortRule[], order: readonly GroupId[]): readonly PortedName[] {
  const byKey = new Map<string, PortedName>();
  for (const { from, to, addresses } of rules) {
    for (const family of [4, 6] as const) {
      for (const named of addresses.names?.[family === 4 ? 'v4' : 'v6'] ?? []) {
        const key = `${family} ${named.group} ${named.key}`;
        const known = byKey.get(key);
        const ports = { from: Math.min(from, known?.from ?? from), to: Math.max(to, known?.to ?? to) };
        byKey.set(key, { ...named, family, ...ports });
      }
    }
  }
  const groupPlace = ({ group }: PortedName): number => order.indexOf(group);
  return [...byKey.values()].toSorted(
    (a, b) =>
      a.from - b.from ||
      a.to - b.to ||
      a.family - b.family ||
      groupPlace(a) - groupPlace(b) ||
      (a.key < b.key ? -1 : 1),
  );
}

function toNode(rules: readonly PortRule[], order: readonly GroupId[]): PortNode {
  const [only, ...more] = rules;
  if (only !== undefined && more.length === 0) return only;
  const from = rules.reduce((least, rule) => Math.min(least, rule.from), 65_535);
  const to = rules.reduce((most, rule) => Math.max(most, rule.to), 0);
  const names = toNames(rules, order);
  return { from, to, shares: toShares(rules, order), ...(names.length > 0 && { names }) };
}

/** Nodes that overlap go to different layers, as few as there can be: at most one for each halving of the ports. */
function toLayers(nodes: readonly PortNode[]): PortNode[][] {
  const layers: PortNode[][] = [];
  for (const node of nodes.toSorted((a, b) => a.from - b.from || a.to - b.to)) {
    const layer = layers.find((each) => (each.at(-1)?.to ?? 0) < node.from);
    if (layer === undefined) layers.push([node]);
    else layer.push(node);
  }
  return layers;
}

/** The tree of rules no two of which have equal ports. */
export const toTree = (rules: readonly PortRule[], order: readonly GroupId[]): PortNode[][] =>
  toLayers(groupByCommonPort(rules).map((some) => toNode(some, order)));
