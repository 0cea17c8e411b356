/** Owns the ends of tests as devices of a fleet, in parts that have one policy each. */
import type { Address } from '../../policy/address.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import type { Family, Peer } from '../../policy/rule.ts';
import type { AddressIndex } from './address-index.ts';
import type { Cohort } from './cohorts.ts';
import type { Effort } from './effort.ts';
import type { FleetIndex } from './fleet-index.ts';
import { noSlots, slotSet, slotSpans, type SlotSet } from './slot-set.ts';

/** Where an end is an address: the number that takes the place of the device's. */
export const noDevice = -1;

/** The devices of one end of a test that share a policy; `cohort` is absent for an address, which has none. */
export interface EndPart {
  readonly index: number;
  readonly cohort?: Cohort;
  readonly devices: readonly number[];
  /** The numbers of their addresses. */
  readonly slots: SlotSet;
  /** The first two devices that have an address of the family. */
  readonly families: { readonly [F in Family]: readonly number[] };
}

export interface End {
  readonly parts: readonly EndPart[];
  /** Empty for an address. */
  readonly byCohort: ReadonlyMap<Cohort, EndPart>;
  readonly slots: SlotSet;
  /** The parts that have an address, as a bit field. */
  readonly partsWithAddress: Uint32Array;
  /** Whether some of its devices try a change. */
  readonly isOnTrial: boolean;
  /** How many devices, or the address, have an address of the family; and the first of them. */
  readonly families: { readonly [F in Family]: { readonly count: number; readonly first: number } };
}

const noFamilies = { 4: { count: 0, first: noDevice }, 6: { count: 0, first: noDevice } } as const;
export const noEnd: End = {
  parts: [],
  byCohort: new Map(),
  slots: noSlots,
  partsWithAddress: new Uint32Array(),
  isOnTrial: false,
  families: noFamilies,
};

export interface EndsInput {
  readonly fleet: FleetIndex;
  readonly addresses: AddressIndex;
  /** Of each kind of device. */
  readonly cohorts: readonly Cohort[];
  readonly effort: Effort;
}

export class Ends {
  readonly #o: EndsInput;
  readonly #slots = new Map<string, SlotSet>();
  readonly #ends = new Map<string, End>();

  constructor(input: EndsInput) {
    this.#o = input;
  }

  cohortOf(place: number): Cohort {
    const { fleet, cohorts } = this.#o;
    return cohorts[fleet.kindOf[place] as number] as Cohort;
  }

  /** The numbers of the addresses of the devices that a peer names. */
  slotsOf(peer: Peer): SlotSet {
    const key = peerKey(peer);
    let slots = this.#slots.get(key);
    if (slots === undefined) this.#slots.set(key, (slots = this.#slotsNamed(peer)));
    return slots;
  }

  /** The devices that a peer names, by policy, with their addresses. */
  *ofPeer(peer: Peer): Generator<void, End> {
    const key = peerKey(peer);
    let end = this.#ends.get(key);
    if (end === undefined) this.#ends.set(key, (end = yield* this.#make(peer)));
    return end;
  }

  /** An address as an end. It is among those that the index was made with. */
  ofAddress(address: Address): End {
    const slots = slotSet([this.#o.addresses.slotOf(address)]);
    const of = (family: Family) => ({ count: address.family === family ? 1 : 0, first: noDevice });
    const part: EndPart = { index: 0, devices: [noDevice], slots, families: { 4: [], 6: [] } };
    return {
      parts: [part],
      byCohort: new Map(),
      slots,
      partsWithAddress: Uint32Array.of(1),
      isOnTrial: false,
      families: { 4: of(4), 6: of(6) },
    };
  }

  /** Those of the end that have the address, in the order of its parts. */
  ownersIn({ parts, byCohort }: End, slot: number): readonly number[] {
    if (byCohort.size === 0) return parts[0]?.devices ?? [];
    const all = this.#o.fleet.ownersOf(slot);
    this.#o.effort.take(4 * all.length);
    const owners = all.flatMap((place) => {
      const part = byCohort.get(this.cohortOf(place));
      return part !== undefined && isAmong(part.devices, place) ? [{ place, index: part.index }] : [];
    });
    return owners.toSorted((a, b) => a.index - b.index).map(({ place }) => place);
  }

  /** The parts that have the address. */
  *partsAt({ byCohort }: End, slot: number): Generator<number> {
    if (byCohort.size === 0) yield 0;
    else
      for (const place of this.#o.fleet.ownersOf(slot)) {
        this.#o.effort.take(4);
        const part = byCohort.get(this.cohortOf(place));
        if (part !== undefined && isAmong(part.devices, place)) yield part.index;
      }
  }

  /** Those of the part that have the address. */
  ownersInPart({ cohort, devices }: EndPart, slot: number): readonly number[] {
    if (cohort === undefined) return devices;
    const all = this.#o.fleet.ownersOf(slot);
    this.#o.effort.take(4 * all.length);
    return all.filter((place) => isAmong(devices, place));
  }

  #slotsNamed(peer: Peer): SlotSet {
    const { fleet, effort } = this.#o;
    return 'all_devices' in peer
      ? slotSpans([{ first: 0, end: fleet.slots }])
      : this.#slotsAt(fleet.named(peer, effort));
  }

  #slotsAt(places: readonly number[]): SlotSet {
    const numbers: number[] = [];
    for (const place of places) for (const slot of this.#o.fleet.slotsOf(place)) numbers.push(slot);
    this.#o.effort.take(4 * (places.length + numbers.length) + 32);
    return slotSet(Uint32Array.from(numbers).toSorted());
  }

  *#make(peer: Peer): Generator<void, End> {
    const { fleet, effort } = this.#o;
    const families = { 4: { count: 0, first: noDevice }, 6: { count: 0, first: noDevice } };
    const parts = new Map<
      Cohort,
      { readonly devices: number[]; readonly families: { readonly [F in Family]: number[] } }
    >();
    const places = fleet.named(peer, effort);
    let isOnTrial = false;
    for (const place of places) {
      const cohort = this.cohortOf(place);
      let part = parts.get(cohort);
      if (part === undefined) parts.set(cohort, (part = { devices: [], families: { 4: [], 6: [] } }));
      part.devices.push(place);
      isOnTrial ||= cohort.later.length > 0;
      for (const family of [4, 6] as const) {
        if (!fleet.hasFamily(place, family)) continue;
        if (part.families[family].length < 2) part.families[family].push(place);
        families[family].count += 1;
        if (families[family].first === noDevice) families[family].first = place;
      }
      effort.take(8);
      if (effort.isDue()) yield;
    }
    const made: EndPart[] = [];
    for (const [cohort, part] of parts) {
      made.push({ index: made.length, cohort, ...part, slots: this.#slotsAt(part.devices) });
      if (effort.isDue()) yield;
    }
    const byCohort = new Map([...parts.keys()].map((cohort, index) => [cohort, made[index] as EndPart]));
    const partsWithAddress = new Uint32Array((made.length + 31) >>> 5);
    for (const { index, slots } of made)
      if (slots.at.length > 0)
        partsWithAddress[index >>> 5] = (partsWithAddress[index >>> 5] ?? 0) | (1 << (index & 31));
    return { parts: made, byCohort, partsWithAddress, slots: this.slotsOf(peer), isOnTrial, families };
  }
}

function isAmong(places: readonly number[], place: number): boolean {
  let [low, high] = [0, places.length - 1];
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const at = places[middle] as number;
    if (at === place) return true;
    if (at < place) low = middle + 1;
    else high = middle - 1;
  }
  return false;
}
