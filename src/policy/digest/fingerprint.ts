/** Owns the fingerprint of an address set: equal for equal sets, however they were cut, and quick to change when a range comes or goes. */
import type { Range } from '../range.ts';
import type { Family } from '../rule.ts';

/** 128 bits. The empty set is all zeros. */
export type Fingerprint = readonly [number, number, number, number];

export const emptyFingerprint: Fingerprint = [0, 0, 0, 0];

export const joinFingerprints = (a: Fingerprint, b: Fingerprint): Fingerprint => [
  a[0] ^ b[0],
  a[1] ^ b[1],
  a[2] ^ b[2],
  a[3] ^ b[3],
];

export const printFingerprint = (fingerprint: Fingerprint): string =>
  fingerprint.map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('');

export const sameFingerprint = (a: Fingerprint, b: Fingerprint): boolean =>
  a[0] === b[0] && a[1] === b[1] && a[2] === b[2] && a[3] === b[3];

/** One step of a hash that spreads each bit of a word over all bits of a lane. */
function stir(lane: number, word: number): number {
  let k = Math.imul(word, 0xcc9e_2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b87_3593);
  const mixed = lane ^ k;
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe654_6b64) | 0;
}

function settle(lane: number): number {
  let h = lane ^ (lane >>> 16);
  h = Math.imul(h, 0x85eb_ca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2_ae35);
  return h ^ (h >>> 16);
}

const seeds = [0x9e37_79b9, 0x243f_6a88, 0xb7e1_5162, 0x6a09_e667] as const;

/** The words of a border: an address, or the number after the last one. */
function wordsOf(family: Family, border: bigint): readonly number[] {
  if (family === 4) return [Number(border & 0xffff_ffffn) | 0, Number(border >> 32n)];
  const words: number[] = [];
  for (let shift = 0n; shift <= 128n; shift += 32n) words.push(Number((border >> shift) & 0xffff_ffffn) | 0);
  return words;
}

/** What one border, an address or the number after the last one, adds to a fingerprint. */
export function borderFingerprint(family: Family, border: bigint): Fingerprint {
  const words = wordsOf(family, border);
  const lane = (seed: number): number => settle(words.reduce(stir, stir(seed, family)));
  return [lane(seeds[0]), lane(seeds[1]), lane(seeds[2]), lane(seeds[3])];
}

/**
 * A range is fingerprinted by its two borders. Those of ranges that touch cancel each other out, so a set has the same
 * fingerprint however it is cut into disjoint ranges.
 */
const rangeFingerprint = (family: Family, { first, last }: Range): Fingerprint =>
  joinFingerprints(borderFingerprint(family, first), borderFingerprint(family, last + 1n));

/** Of disjoint ranges. */
export const setFingerprint = (family: Family, ranges: readonly Range[]): Fingerprint =>
  ranges.reduce((sum: Fingerprint, range) => joinFingerprints(sum, rangeFingerprint(family, range)), emptyFingerprint);
