/** Owns the search for a pair that may connect, among the parts of two ends that each admit some of the other. */
import type { AddressIndex } from './address-index.ts';
import type { AdmittedEnd } from './admitted.ts';
import type { Effort } from './effort.ts';
import { noDevice, type EndPart, type Ends } from './ends.ts';
import { commonSlots, eachSlot } from './slot-set.ts';

/** A part of an end, and what of the other end its policy admits. */
export interface Reach {
  readonly part: EndPart;
  readonly admitted: AdmittedEnd;
}

/** A device or address of each end, with the number of its address. */
export interface SlotPair {
  readonly from: number;
  readonly fromSlot: number;
  readonly to: number;
  readonly toSlot: number;
  readonly target: EndPart;
}

export interface PairSearch {
  readonly from: readonly Reach[];
  readonly to: readonly Reach[];
  readonly ends: Ends;
  readonly addresses: AddressIndex;
  readonly effort: Effort;
}

/** A pair of two that are not the same device: always the same one of the same search. */
export function* findPair(search: PairSearch): Generator<void, SlotPair | undefined> {
  const { from, to, effort } = search;
  // Each of the fewer ones meets only those of the others that it admits.
  const isSwapped = to.length < from.length;
  const [few, many] = isSwapped ? [to, from] : [from, to];
  const others: Reach[] = [];
  const isThere = new Uint32Array(few[0]?.admitted.parts.length ?? 0);
  for (const reach of many) {
    const { index } = reach.part;
    others[index] = reach;
    isThere[index >>> 5] = (isThere[index >>> 5] ?? 0) | (1 << (index & 31));
  }
  effort.take(2 * many.length);
  for (const one of few) {
    const { index } = one.part;
    const [word, bit] = [index >>> 5, 1 << (index & 31)];
    effort.take(isThere.length);
    for (const [place, there] of isThere.entries()) {
      for (let left = (one.admitted.parts[place] as number) & there; left !== 0; left &= left - 1) {
        const other = others[place * 32 + 31 - Math.clz32(left & -left)];
        effort.take(1);
        if (other === undefined || ((other.admitted.parts[word] as number) & bit) === 0) continue;
        const [source, target] = isSwapped ? [other, one] : [one, other];
        const pair = isOneDevice(source.part, target.part) ? undefined : pairOf(source, target, search);
        if (pair !== undefined) return pair;
      }
    }
    if (effort.isDue()) yield;
  }
  return undefined;
}

/** Whether both are the same device and no other. */
const isOneDevice = ({ devices: [one, ...a] }: EndPart, { devices: [other, ...b] }: EndPart): boolean =>
  a.length + b.length === 0 && one === other && one !== noDevice;

function pairOf(one: Reach, other: Reach, { ends, addresses, effort }: PairSearch): SlotPair | undefined {
  const sources = commonSlots(one.part.slots, other.admitted.slots);
  const targets = commonSlots(other.part.slots, one.admitted.slots);
  effort.take(64 + 4 * (sources.at.length + targets.at.length));
  for (const family of [4, 6] as const) {
    const of = addresses.families[family];
    for (const fromSlot of eachSlot(commonSlots(sources, of))) {
      for (const source of ends.ownersInPart(one.part, fromSlot)) {
        for (const toSlot of eachSlot(commonSlots(targets, of))) {
          const target = ends.ownersInPart(other.part, toSlot).find((place) => place !== source || place === noDevice);
          effort.take(16);
          if (target !== undefined) return { from: source, fromSlot, to: target, toSlot, target: other.part };
        }
      }
    }
  }
  return undefined;
}
