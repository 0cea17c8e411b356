/** Owns the numbering of the addresses that policy tests are about: sorted, so that a range of addresses is a range of numbers. */
import type { Address } from '../address.ts';
import type { RangeSet } from '../range.ts';
import type { Family } from '../rule.ts';
import { addBitRange, newBits, type Bits } from './bits.ts';

const ascending = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

/** The first place whose value is not below. */
function lowerBound(values: readonly bigint[], value: bigint): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as bigint) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** IPv4 addresses have the first numbers, IPv6 addresses those after them. */
export class AddressIndex {
  readonly #v4: readonly bigint[];
  readonly #v6: readonly bigint[];
  readonly size: number;
  readonly all: Bits;
  readonly families: { readonly [F in Family]: Bits };

  constructor(addresses: Iterable<Address>) {
    const values = { 4: new Set<bigint>(), 6: new Set<bigint>() };
    for (const { family, value } of addresses) values[family].add(value);
    this.#v4 = [...values[4]].toSorted(ascending);
    this.#v6 = [...values[6]].toSorted(ascending);
    this.size = this.#v4.length + this.#v6.length;
    const family = (first: number, end: number): Bits => {
      const bits = newBits(this.size);
      addBitRange(bits, first, end);
      return bits;
    };
    this.families = { 4: family(0, this.#v4.length), 6: family(this.#v4.length, this.size) };
    this.all = family(0, this.size);
  }

  /** The number of an address that is among them. */
  slotOf({ family, value }: Address): number {
    return family === 4 ? lowerBound(this.#v4, value) : this.#v4.length + lowerBound(this.#v6, value);
  }

  addressAt(slot: number): Address {
    const v4 = this.#v4[slot];
    if (v4 !== undefined) return { family: 4, value: v4 };
    return { family: 6, value: this.#v6[slot - this.#v4.length] ?? 0n };
  }

  /** Adds the numbers of all addresses that the ranges hold. */
  addRanges(bits: Bits, family: Family, ranges: RangeSet): void {
    const [values, base] = family === 4 ? [this.#v4, 0] : [this.#v6, this.#v4.length];
    for (const { first, last } of ranges) {
      const [from, end] = [lowerBound(values, first), lowerBound(values, last + 1n)];
      if (end > from) addBitRange(bits, base + from, base + end);
    }
  }
}
