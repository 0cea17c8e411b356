/**
 * Owns the splitting of address ranges into blocks of one size: a hash can look up blocks, while ranges need a tree.
 */
import type { RangeSet } from '../policy/range.ts';
import type { Family } from '../policy/rule.ts';

/** Every address of the set, and no other, shares this many leading bits with one of these. */
export interface Blocks {
  readonly length: number;
  /** Ascending. */
  readonly firsts: readonly bigint[];
}

/** Fewer ranges are walked through as quickly, and are easier to read. */
const fewest = 8;
/** Blocks that a range may become on average: a hash of very many costs more than the tree of few. */
const growth = 2;

export const familyBits = (family: Family): number => (family === 4 ? 32 : 128);

/** The leading bits, as an address. */
export const maskOf = (family: Family, length: number): bigint => {
  const bits = BigInt(familyBits(family));
  return (1n << bits) - (1n << (bits - BigInt(length)));
};

/** The set in blocks of the largest size that fits all of it; nothing where they would be too many, or the ranges are few. */
export function blocksOf(ranges: RangeSet, family: Family): Blocks | undefined {
  if (ranges.length < fewest) return undefined;
  let blocks = known.get(ranges);
  if (blocks === undefined) {
    blocks = (family === 4 ? blocksOf4(ranges) : blocksOf6(ranges)) ?? noBlocks;
    known.set(ranges, blocks);
  }
  return blocks === noBlocks ? undefined : blocks;
}

/** Naming a chain by its content and loading it share the work. */
const known = new WeakMap<RangeSet, Blocks>();
const noBlocks: Blocks = { length: 0, firsts: [] };

/** By plain numbers, which take a tenth of the time: most ranges are of this family. */
function blocksOf4(ranges: RangeSet): Blocks | undefined {
  let borders = 0;
  // The border after the last address is zero, because bits beyond those of an address are dropped.
  for (const { first, last } of ranges) borders |= Number(first) | (Number(last) + 1);
  const size = (borders & -borders) >>> 0;
  const most = ranges.length * growth;
  const firsts: bigint[] = [];
  for (const { first, last } of ranges) {
    const from = Number(first);
    const to = Number(last);
    if (Math.floor((to - from) / size) >= most - firsts.length) return undefined;
    firsts.push(first);
    for (let at = from + size; at <= to; at += size) firsts.push(BigInt(at));
  }
  return { length: familyBits(4) - (31 - Math.clz32(size)), firsts };
}

function blocksOf6(ranges: RangeSet): Blocks | undefined {
  let borders = 0n;
  for (const { first, last } of ranges) borders |= first | (last + 1n);
  const size = borders & -borders;
  const most = ranges.length * growth;
  const firsts: bigint[] = [];
  for (const { first, last } of ranges) {
    if ((last - first) / size >= BigInt(most - firsts.length)) return undefined;
    for (let at = first; at <= last; at += size) firsts.push(at);
  }
  return { length: familyBits(6) - (size.toString(2).length - 1), firsts };
}
