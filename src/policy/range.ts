/** Owns address ranges and their algebra: sorted, disjoint, non-adjacent lists per family. */
import type { Family } from './rule.ts';

/** Inclusive on both ends. */
export interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

/** A set of addresses of one family: ascending, disjoint, no two adjacent. Made by `mergeRanges` only. */
export type RangeSet = readonly Range[];

export const lastAddress = (family: Family): bigint => (family === 4 ? 0xffff_ffffn : (1n << 128n) - 1n);
export const wholeFamily = (family: Family): RangeSet => [{ first: 0n, last: lastAddress(family) }];
export const isWholeFamily = (set: RangeSet, family: Family): boolean =>
  set.length === 1 && set[0]?.first === 0n && set[0].last === lastAddress(family);

const byFirst = (a: Range, b: Range): number => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0);

function isSorted(ranges: readonly Range[]): boolean {
  let before = -1n;
  for (const { first } of ranges) {
    if (first < before) return false;
    before = first;
  }
  return true;
}

/** The union of any ranges, as a set. */
export function mergeRanges(ranges: Iterable<Range>): RangeSet {
  const all = [...ranges];
  const sorted = isSorted(all) ? all : all.toSorted(byFirst);
  const merged: { first: bigint; last: bigint }[] = [];
  let open: { first: bigint; last: bigint } | undefined;
  for (const range of sorted) {
    if (open !== undefined && range.first <= open.last + 1n) {
      if (range.last > open.last) open.last = range.last;
    } else {
      open = { first: range.first, last: range.last };
      merged.push(open);
    }
  }
  return merged;
}

/** The union of two sets, in one pass over both. */
export function uniteRanges(a: RangeSet, b: RangeSet): RangeSet {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const merged: { first: bigint; last: bigint }[] = [];
  let open: { first: bigint; last: bigint } | undefined;
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]];
    const next = right === undefined || (left !== undefined && left.first <= right.first) ? left : right;
    if (next === undefined) break;
    if (next === left) i += 1;
    else j += 1;
    if (open !== undefined && next.first <= open.last + 1n) {
      if (next.last > open.last) open.last = next.last;
    } else {
      open = { first: next.first, last: next.last };
      merged.push(open);
    }
  }
  return merged;
}

/** The range that holds the address, out of ascending disjoint ones, by binary search. */
export function rangeAt<R extends Range>(ranges: readonly R[], address: bigint): R | undefined {
  let low = 0;
  let high = ranges.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const range = ranges[middle] as R;
    if (address < range.first) high = middle - 1;
    else if (address > range.last) low = middle + 1;
    else return range;
  }
  return undefined;
}

/** Whether the set holds the address. */
export const hasAddress = (set: RangeSet, address: bigint): boolean => rangeAt(set, address) !== undefined;

/** Whether the set holds every address of the other one. */
export function holdsAll(set: RangeSet, other: RangeSet): boolean {
  let at = 0;
  for (const { first, last } of other) {
    let range = set[at];
    while (range !== undefined && range.last < first) range = set[++at];
    if (range === undefined || range.first > first || range.last < last) return false;
  }
  return true;
}

export function sameRanges(a: RangeSet, b: RangeSet): boolean {
  return a.length === b.length && a.every((range, i) => range.first === b[i]?.first && range.last === b[i]?.last);
}
