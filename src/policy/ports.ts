/** Owns the way from overlapping port rules to a port map: disjoint intervals, or a prefix tree where those explode. */
import type { Addresses, PortInterval, PortMap, PortPrefix } from './canonical.ts';
import type { GroupId } from './ids.ts';
import { isNobody, mergeAddresses, sameAddresses } from './shares.ts';

/** One rule's ports with whom it admits. Ports are 1–65535; any-port rules do not come here. */
export interface PortRule {
  readonly from: number;
  readonly to: number;
  readonly addresses: Addresses;
}

/** Disjoint intervals may hold this many times the ranges that the rules name before the tree takes over. */
const growth = 4;
/** Small policies never need the tree. */
const slack = 1_024;
/** Ranges touched while merging, as a multiple of the input: bounds the time of a hostile policy. */
const work = 256;

/** How many ranges the kernel will hold for it. */
const sizeOf = ({ v4, v6, shares = [] }: Addresses): number =>
  shares.length > 1
    ? shares.reduce((sum, share) => sum + share.v4.length + share.v6.length, 1)
    : 1 + v4.length + v6.length;

/** Rules with equal ports become one. */
function joinEqual(rules: readonly PortRule[], order: readonly GroupId[]): PortRule[] {
  const byPorts = new Map<number, PortRule[]>();
  for (const rule of rules) {
    const key = rule.from * 65_536 + rule.to;
    const same = byPorts.get(key);
    if (same === undefined) byPorts.set(key, [rule]);
    else same.push(rule);
  }
  return [...byPorts.values()].map((same) => {
    const [first] = same;
    if (first === undefined) throw new Error('a group of rules is never empty');
    return {
      from: first.from,
      to: first.to,
      addresses: mergeAddresses(
        same.map((rule) => rule.addresses),
        order,
      ),
    };
  });
}

/** Ascending, disjoint intervals whose neighbours differ, or nothing where they would grow or cost too much. */
function toIntervals(rules: readonly PortRule[], order: readonly GroupId[]): PortInterval[] | undefined {
  const input = rules.reduce((sum, rule) => sum + sizeOf(rule.addresses), 0);
  const borders = [...new Set(rules.flatMap((rule) => [rule.from, rule.to + 1]))].toSorted((a, b) => a - b);
  const starting = rules.toSorted((a, b) => a.from - b.from);
  const intervals: PortInterval[] = [];
  let active: PortRule[] = [];
  let next = 0;
  let size = 0;
  let touched = 0;
  for (const [index, from] of borders.entries()) {
    active = active.filter((rule) => rule.to >= from);
    for (let rule = starting[next]; rule?.from === from; rule = starting[next]) {
      active.push(rule);
      next += 1;
    }
    if (active.length === 0) continue;
    const to = (borders[index + 1] ?? 65_536) - 1;
    for (const rule of active) touched += sizeOf(rule.addresses);
    const addresses = mergeAddresses(
      active.map((rule) => rule.addresses),
      order,
    );
    const before = intervals.at(-1);
    if (before !== undefined && before.to === from - 1 && sameAddresses(before.addresses, addresses)) {
      intervals[intervals.length - 1] = { from: before.from, to, addresses };
      continue;
    }
    intervals.push({ from, to, addresses });
    size += sizeOf(addresses);
    if (size > growth * input + slack || touched > work * (input + slack)) return undefined;
  }
  return intervals;
}

/** The fewest prefixes that cover the interval exactly. */
export function portPrefixes(from: number, to: number): { readonly length: number; readonly value: number }[] {
  const prefixes: { length: number; value: number }[] = [];
  let start = from;
  while (start <= to) {
    let bits = 0;
    while (bits < 16 && start % 2 ** (bits + 1) === 0 && start + 2 ** (bits + 1) - 1 <= to) bits += 1;
    prefixes.push({ length: 16 - bits, value: start >> bits });
    start += 2 ** bits;
  }
  return prefixes;
}

function toPrefixes(rules: readonly PortRule[], order: readonly GroupId[]): PortPrefix[] {
  const nodes = new Map<number, { length: number; value: number; all: Addresses[] }>();
  for (const rule of rules) {
    for (const { length, value } of portPrefixes(rule.from, rule.to)) {
      const key = length * 65_536 + value;
      const node = nodes.get(key);
      if (node === undefined) nodes.set(key, { length, value, all: [rule.addresses] });
      else node.all.push(rule.addresses);
    }
  }
  return [...nodes.entries()]
    .toSorted(([a], [b]) => a - b)
    .map(([, { length, value, all }]) => ({ length, value, addresses: mergeAddresses(all, order) }));
}

/** The port map of any rules; those that admit nobody leave no trace. `order` is that of the device's groups. */
export function toPortMap(rules: readonly PortRule[], order: readonly GroupId[] = []): PortMap {
  const joined = joinEqual(
    rules.filter(({ addresses }) => !isNobody(addresses)),
    order,
  );
  const intervals = toIntervals(joined, order);
  return intervals === undefined
    ? { kind: 'prefixes', nodes: toPrefixes(joined, order) }
    : { kind: 'intervals', intervals };
}
