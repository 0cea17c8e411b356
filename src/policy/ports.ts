/** Owns the step from overlapping port rules to a port map: disjoint intervals, or a tree where those would explode. */
import type { Addresses, PortInterval, PortMap } from './canonical.ts';
import type { GroupId } from './ids.ts';
import type { PortRule } from './port-rule.ts';
import { toTree } from './port-tree.ts';
import { hasNoAddress, mergeAddresses, sameAddresses } from './address-sets.ts';

/** Disjoint intervals may hold this many times the ranges that the rules name before the tree takes over… */
const growth = 4;
/** …and never so many ranges more: the kernel takes some microseconds for each. */
const most = 16_384;
/** Small policies never need the tree. */
const slack = 1_024;
/** Ranges touched while merging that may turn out to be too many: bounds the time of a hostile policy. */
const work = 262_144;

/** How many ranges the kernel will hold for it; whom names stand for may change, so each counts as one. */
const sizeOf = ({ v4, v6, shares = [], names }: Addresses): number =>
  (names === undefined ? 0 : names.v4.length + names.v6.length) +
  (shares.length > 1
    ? shares.reduce((sum, share) => sum + share.v4.length + share.v6.length, 1)
    : 1 + v4.length + v6.length);

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
    if (same.length === 1) return first;
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

/** The ports at which another set of rules begins to hold. Ascending, each once. */
function bordersOf(rules: readonly PortRule[]): number[] {
  const ends = new Uint32Array(2 * rules.length);
  for (const [i, { from, to }] of rules.entries()) {
    ends[2 * i] = from;
    ends[2 * i + 1] = to + 1;
  }
  const borders: number[] = [];
  for (const end of ends.toSorted()) if (end !== borders.at(-1)) borders.push(end);
  return borders;
}

/** How many ranges all intervals together name before any two are merged: what merging has to touch. */
function touchedBy(rules: readonly PortRule[], borders: readonly number[]): number {
  const change = new Map<number, number>();
  for (const { from, to, addresses } of rules) {
    const size = sizeOf(addresses);
    change.set(from, (change.get(from) ?? 0) + size);
    change.set(to + 1, (change.get(to + 1) ?? 0) - size);
  }
  let [active, touched] = [0, 0];
  for (const border of borders) {
    active += change.get(border) ?? 0;
    touched += active;
  }
  return touched;
}

/** Ascending, disjoint intervals whose neighbours differ, or nothing where they would grow or cost too much. */
function toIntervals(rules: readonly PortRule[], order: readonly GroupId[]): PortInterval[] | undefined {
  const input = rules.reduce((sum, rule) => sum + sizeOf(rule.addresses), 0);
  const limit = Math.min(growth * input + slack, input + most);
  const borders = bordersOf(rules);
  if (touchedBy(rules, borders) > Math.max(limit, work)) return undefined;
  const starting = rules.toSorted((a, b) => a.from - b.from);
  const intervals: PortInterval[] = [];
  let active: PortRule[] = [];
  let next = 0;
  let size = 0;
  for (const [index, from] of borders.entries()) {
    active = active.filter((rule) => rule.to >= from);
    for (let rule = starting[next]; rule?.from === from; rule = starting[next]) {
      active.push(rule);
      next += 1;
    }
    if (active.length === 0) continue;
    const to = (borders[index + 1] ?? 65_536) - 1;
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
    if (size > limit) return undefined;
  }
  return intervals;
}

const somebody = (rules: readonly PortRule[]): readonly PortRule[] =>
  rules.filter(({ addresses }) => !hasNoAddress(addresses));

/**
 * Builds the port map of the rules. Rules that admit no address leave no trace. `order` is the order of the device's
 * groups.
 */
export function toPortMap(rules: readonly PortRule[], order: readonly GroupId[] = []): PortMap {
  const joined = joinEqual(somebody(rules), order);
  const intervals = toIntervals(joined, order);
  return intervals === undefined ? { kind: 'tree', layers: toTree(joined, order) } : { kind: 'intervals', intervals };
}

/**
 * The port maps of two protocols. Where both are trees, the rules that both have, as the same objects, make layers that
 * both have: what one of them has besides does not cost all others a second time.
 */
export function toPortMaps(
  tcp: readonly PortRule[],
  udp: readonly PortRule[],
  order: readonly GroupId[] = [],
): { readonly tcp: PortMap; readonly udp: PortMap } {
  const ofBoth = new Set(udp);
  const common = somebody(tcp.filter((rule) => ofBoth.has(rule)));
  const intervalsOf = (rules: readonly PortRule[]): PortInterval[] | undefined =>
    toIntervals(joinEqual(somebody(rules), order), order);
  const [tcpIntervals, udpIntervals] = [intervalsOf(tcp), intervalsOf(udp)];
  const isCommon = new Set(tcpIntervals === undefined && udpIntervals === undefined ? common : []);
  const commonLayers = isCommon.size === 0 ? [] : toTree(joinEqual(common, order), order);
  const mapOf = (rules: readonly PortRule[], intervals: PortInterval[] | undefined): PortMap => {
    if (intervals !== undefined) return { kind: 'intervals', intervals };
    const own = somebody(rules).filter((rule) => !isCommon.has(rule));
    return {
      kind: 'tree',
      layers: [...commonLayers, ...(own.length === 0 ? [] : toTree(joinEqual(own, order), order))],
    };
  };
  return { tcp: mapOf(tcp, tcpIntervals), udp: mapOf(udp, udpIntervals) };
}
