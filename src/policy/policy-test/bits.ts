/** Owns sets of small numbers as bits, so that sets of thousands of addresses are compared in a few machine words. */

export type Bits = Uint32Array;

export const newBits = (size: number): Bits => new Uint32Array((size + 31) >>> 5);

export const hasBit = (bits: Bits, at: number): boolean => ((bits[at >>> 5] ?? 0) & (1 << (at & 31))) !== 0;

export function addBit(bits: Bits, at: number): void {
  bits[at >>> 5] = (bits[at >>> 5] ?? 0) | (1 << (at & 31));
}

/** Adds every number from `first` up to, and without, `end`. */
export function addBitRange(bits: Bits, first: number, end: number): void {
  let at = first;
  while (at < end && (at & 31) !== 0) addBit(bits, at++);
  for (; at + 32 <= end; at += 32) bits[at >>> 5] = 0xffff_ffff;
  while (at < end) addBit(bits, at++);
}

export function addAllBits(bits: Bits, other: Bits): void {
  for (let word = 0; word < bits.length; word += 1) bits[word] = (bits[word] ?? 0) | (other[word] ?? 0);
}

export function removeAllBits(bits: Bits, other: Bits): void {
  for (let word = 0; word < bits.length; word += 1) bits[word] = (bits[word] ?? 0) & ~(other[word] ?? 0);
}

export function keepCommonBits(bits: Bits, other: Bits): void {
  for (let word = 0; word < bits.length; word += 1) bits[word] = (bits[word] ?? 0) & (other[word] ?? 0);
}

/** Whether both have a number in common. */
export function haveCommonBit(a: Bits, b: Bits): boolean {
  for (let word = 0; word < a.length; word += 1) if (((a[word] ?? 0) & (b[word] ?? 0)) !== 0) return true;
  return false;
}

/** Whether every number of `a` is in `b`. */
export function areBitsWithin(a: Bits, b: Bits): boolean {
  for (let word = 0; word < a.length; word += 1) if (((a[word] ?? 0) & ~(b[word] ?? 0)) !== 0) return false;
  return true;
}

/** The numbers, ascending. */
export function* eachBit(bits: Bits): Generator<number> {
  for (let word = 0; word < bits.length; word += 1) {
    for (let left = bits[word] ?? 0; left !== 0; left &= left - 1) yield word * 32 + 31 - Math.clz32(left & -left);
  }
}
