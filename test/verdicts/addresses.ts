/** Owns random address ranges: crowded together, so that they overlap, nest, touch and cross the borders of prefixes. */
import { printAddress } from '../../src/policy/address.ts';
import type { Family } from '../../src/policy/rule.ts';
import type { Random } from '../lib/random.ts';

/** A range as numbers, known apart from any parser, with a text that a person might write for it. */
export interface DrawnRange {
  readonly family: Family;
  readonly first: bigint;
  readonly last: bigint;
  readonly text: string;
}

const bitsOf = (family: Family): number => (family === 4 ? 32 : 128);
export const highest = (family: Family): bigint => (1n << BigInt(bitsOf(family))) - 1n;

const anchors = {
  4: [0x0100_0000n, 0x0a00_0000n, 0x0a00_ffffn, 0x0aff_ffffn, 0xc0a8_7fffn, 0xc0a8_8000n, 0xc633_6400n, 0xdfff_ff00n],
  6: [
    0x2001_0db8n << 96n,
    (0x2001_0db8n << 96n) | (1n << 64n),
    (0x2001_0db8n << 96n) | 0xffffn,
    (0xfd00n << 112n) | 0xffff_ffff_ffff_ffffn,
    (0xfd00n << 112n) | (1n << 80n),
    (0xfe80n << 112n) | 0x10n,
    0x64_ff9bn << 96n,
  ],
} as const;
const prefixLengths = {
  4: [8, 12, 15, 16, 20, 23, 24, 25, 28, 30, 31, 32],
  6: [7, 16, 32, 48, 63, 64, 65, 96, 112, 120, 126, 127, 128],
} as const;
const spans = [0n, 1n, 2n, 5n, 10n, 254n, 255n, 256n, 4_099n, 65_535n, 65_539n];

/** The neighbourhoods of one scenario: few, so that its rules meet each other. */
export function drawAnchors(random: Random, family: Family): bigint[] {
  const known = random.shuffled(anchors[family]).slice(0, random.int(1, 3));
  return random.chance(0.3) ? [...known, random.big(bitsOf(family))] : known;
}

/** One range near the anchors, or in a chosen relation to an earlier one. */
export function drawRange(
  random: Random,
  family: Family,
  near: readonly bigint[],
  before: readonly DrawnRange[],
): DrawnRange {
  const earlier = before.filter((range) => range.family === family);
  const [first, last] =
    earlier.length > 0 && random.chance(0.35)
      ? relatedTo(random, random.pick(earlier))
      : freshRange(random, family, random.pick(near));
  const clamp = (value: bigint): bigint => (value < 0n ? 0n : value > highest(family) ? highest(family) : value);
  const range = { family, first: clamp(first), last: clamp(last) };
  return { ...range, text: writeRange(random, range) };
}

function freshRange(random: Random, family: Family, anchor: bigint): [bigint, bigint] {
  const start = anchor + BigInt(random.int(-12, 12));
  const kind = random.bits() % 100;
  if (kind < 30) return [start, start];
  if (kind < 60) return prefixAround(family, anchor, random.pick(prefixLengths[family]));
  if (kind < 94) return [start, start + random.pick(spans)];
  if (kind < 96) return [0n, highest(family)];
  if (kind < 98) return [0n, start];
  return [start, highest(family)];
}

function prefixAround(family: Family, address: bigint, length: number): [bigint, bigint] {
  const host = (1n << BigInt(bitsOf(family) - length)) - 1n;
  const first = address & (highest(family) ^ host);
  return [first, first | host];
}

/** Prefixes of one length, near one another: some touch, most do not. */
export function drawBlocks(random: Random, family: Family, near: readonly bigint[], count: number): DrawnRange[] {
  const length = random.pick(prefixLengths[family].filter((each) => each > 15));
  const size = 1n << BigInt(bitsOf(family) - length);
  const [home] = prefixAround(family, random.pick(near), length);
  return random
    .many(count, () => home + size * BigInt(random.int(0, count * 2)))
    .filter((first) => first + size - 1n <= highest(family))
    .map((first) => {
      const range = { family, first, last: first + size - 1n };
      return { ...range, text: writeRange(random, range) };
    });
}

/** Equal, adjacent on either side, a gap of one, overlapping, inside. */
function relatedTo(random: Random, { first, last }: DrawnRange): [bigint, bigint] {
  const length = BigInt(random.int(0, 9));
  const middle = (first + last) / 2n;
  return random.pick<[bigint, bigint]>([
    [first, last],
    [last + 1n, last + 1n + length],
    [last + 2n, last + 2n + length],
    [first - 1n - length, first - 1n],
    [first - 2n - length, first - 2n],
    [middle, last + length],
    [first - length, middle],
    [middle, middle],
  ]);
}

function writeRange(random: Random, range: Omit<DrawnRange, 'text'>): string {
  const { family, first, last } = range;
  const size = last - first + 1n;
  const isPrefix = (size & (size - 1n)) === 0n && first % size === 0n;
  if (first === last && random.chance(0.8)) return spaced(random, writeAddress(random, family, first));
  if (isPrefix && random.chance(0.85)) {
    const inside = random.chance(0.2) ? first + (random.big(bitsOf(family)) % size) : first;
    return `${writeAddress(random, family, inside)}/${bitsOf(family) - (size.toString(2).length - 1)}`;
  }
  const dash = random.chance(0.2) ? ' - ' : '-';
  return spaced(random, `${writeAddress(random, family, first)}${dash}${writeAddress(random, family, last)}`);
}

const spaced = (random: Random, text: string): string => (random.chance(0.05) ? ` ${text} ` : text);

function writeAddress(random: Random, family: Family, address: bigint): string {
  if (family === 4 || random.chance(0.6)) return printAddress(family, address);
  const hex = address.toString(16).padStart(32, '0');
  const groups = hex.match(/.{4}/g) ?? [];
  return random.chance(0.5)
    ? groups.join(':').toUpperCase()
    : groups.map((group) => group.replace(/^0+(?=.)/, '')).join(':');
}

/**
 * Whether the kernel's own plausibility checks let a packet with this far end through to the filter.
 * Left out are the unspecified, loopback, multicast and broadcast addresses, IPv4 written as IPv6, and the lab's own network.
 */
export function canCarryProbe(family: Family, address: bigint): boolean {
  if (address < 0n || address > highest(family)) return false;
  if (family === 4) {
    const top = address >> 24n;
    const own = address >> 8n === 0x64_4000n;
    return top !== 0n && top !== 127n && (top < 224n || top >= 240n) && address !== highest(4) && !own;
  }
  const own = address >> 64n === 0xfd7f_0000_0000_0000n;
  return address > 1n && address >> 32n !== 0xffffn && address >> 120n !== 0xffn && !own;
}
