/** Owns the numbering of the addresses that policy tests are about: sorted, so that a range of addresses is a span of numbers. */
import type { Address } from '../../policy/address.ts';
import { wholeFamily, type RangeSet } from '../../policy/range.ts';
import type { Family } from '../../policy/rule.ts';
import { slotSpans, type SlotSet } from './slot-set.ts';

export const ascending = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

/** The first place, from `low` on, whose value is not below. */
export function lowerBound(values: readonly bigint[], value: bigint, low = 0): number {
  let [first, end] = [low, values.length];
  while (first < end) {
    const middle = (first + end) >>> 1;
    if ((values[middle] as bigint) < value) first = middle + 1;
    else end = middle;
  }
  return first;
}

/** The addresses of one family, ascending, each once, and the number of the first. */
interface Numbered {
  readonly family: Family;
  readonly values: readonly bigint[];
  readonly base: number;
}

/** Addresses of devices, ascending and each once, by family. */
export type SortedAddresses = { readonly [F in Family]: readonly bigint[] };

/** The addresses of devices have the first numbers: those of IPv4, then those of IPv6. Those that only tests name follow. */
export class AddressIndex {
  readonly #parts: readonly Numbered[];
  /** Every number. */
  readonly all: SlotSet;
  readonly families: { readonly [F in Family]: SlotSet };

  constructor(own: SortedAddresses, further: readonly Address[]) {
    const parts: Numbered[] = [];
    let base = 0;
    const add = (family: Family, values: readonly bigint[]): void => {
      parts.push({ family, values, base });
      base += values.length;
    };
    for (const family of [4, 6] as const) add(family, own[family]);
    for (const family of [4, 6] as const) {
      const values = new Set(further.flatMap((each) => (each.family === family ? each.value : [])));
      const others = [...values].filter((value) => own[family][lowerBound(own[family], value)] !== value);
      add(family, others.toSorted(ascending));
    }
    this.#parts = parts;
    this.all = slotSpans([{ first: 0, end: base }]);
    this.families = { 4: this.slotsIn(4, wholeFamily(4)), 6: this.slotsIn(6, wholeFamily(6)) };
  }

  /** The number of an address that is among them. */
  slotOf({ family, value }: Address): number {
    for (const part of this.#parts) {
      if (part.family !== family) continue;
      const place = lowerBound(part.values, value);
      if (part.values[place] === value) return part.base + place;
    }
    throw new Error('this address has no number');
  }

  addressAt(slot: number): Address {
    for (const { family, values, base } of this.#parts) {
      const value = slot < base ? undefined : values[slot - base];
      if (value !== undefined) return { family, value };
    }
    throw new Error('no address has this number');
  }

  /** The numbers of all addresses that the ranges hold. */
  slotsIn(family: Family, ranges: RangeSet): SlotSet {
    const spans = this.#parts.flatMap((part) => {
      if (part.family !== family) return [];
      const { values, base } = part;
      let low = 0;
      return ranges.flatMap(({ first, last }) => {
        if (low === values.length) return [];
        const from = lowerBound(values, first, low);
        low = lowerBound(values, last + 1n, from);
        return low > from ? [{ first: base + from, end: base + low }] : [];
      });
    });
    return slotSpans(spans);
  }
}
