/** Owns the devices of one moment as sets: by label, by policy and by address, so that tests about thousands of devices are a few set operations. */
import type { Address } from '../address.ts';
import type { EffectivePolicy } from '../effective.ts';
import { peerKey } from '../fleet/selector.ts';
import { parseGroupId } from '../ids.ts';
import { withIsolation } from '../isolation/isolation.ts';
import type { Family, Peer, StoredRule } from '../rule.ts';
import { policiesOf, type DevicePolicy } from '../snapshot/device-policies.ts';
import type { PolicySnapshot, SnapshotDevice } from '../snapshot/snapshot.ts';
import { policyAt } from '../time/policy-at.ts';
import { AddressIndex } from './address-index.ts';
import { addBit, eachBit, keepCommonBits, newBits, type Bits } from './bits.ts';

/** Devices that have the same policy. */
export interface Cohort {
  readonly policy: EffectivePolicy;
}

/** The devices of one end of a test that share a policy; `cohort` is absent for an address, which has none. */
export interface EndPart {
  readonly cohort?: Cohort;
  readonly devices: readonly number[];
  /** The numbers of their addresses. */
  readonly slots: Bits;
}

export interface End {
  readonly parts: readonly EndPart[];
  readonly slots: Bits;
  /** How many devices, or the address, have an address of the family; and the first of them. */
  readonly families: { readonly [F in Family]: { readonly count: number; readonly first: number } };
}

/** Where an end is an address: the number that takes the place of the device's. */
export const noDevice = -1;

const nobody: StoredRule = {
  ip_protocol: 'tcp',
  from_port: 0,
  to_port: 0,
  peers: [],
  members: { v4: [], v6: [] },
};
/** A policy that cannot be known, because a group is missing, admits nothing. */
const unknownPolicy: EffectivePolicy = {
  source: 'list',
  groups: [{ id: parseGroupId('00000000-0000-0000-0000-000000000000'), name: '', inbound: [], outbound: [nobody] }],
};

export class FleetIndex {
  readonly devices: readonly SnapshotDevice[];
  /** When time alone changes one of the policies, in milliseconds since 1970. */
  readonly changesAt: number;
  readonly addresses: AddressIndex;
  readonly #places = new Map<string, number>();
  readonly #cohortOf: readonly Cohort[];
  readonly #slotsOf: readonly (readonly number[])[];
  readonly #ownersOf: number[][] = [];
  readonly #byLabel = new Map<string, Bits>();
  readonly #all: Bits;
  readonly #ends = new Map<string, End>();

  /** `further` are addresses that tests name besides those of devices. */
  constructor(snapshot: PolicySnapshot, further: readonly Address[]) {
    this.devices = [...snapshot.devices.values()];
    this.addresses = new AddressIndex([...this.devices.flatMap(({ identity }) => identity.addresses), ...further]);
    this.#all = newBits(this.devices.length);
    this.#slotsOf = this.devices.map(({ identity }, place) => {
      const slots = identity.addresses.map((address) => this.addresses.slotOf(address));
      for (const slot of slots) (this.#ownersOf[slot] ??= []).push(place);
      this.#places.set(identity.id, place);
      addBit(this.#all, place);
      for (const label of identity.labels) {
        let bits = this.#byLabel.get(label);
        if (bits === undefined) this.#byLabel.set(label, (bits = newBits(this.devices.length)));
        addBit(bits, place);
      }
      return slots;
    });
    const policies = policiesOf(snapshot);
    const cohorts = new Map<DevicePolicy, Cohort>();
    let changesAt = Number.POSITIVE_INFINITY;
    this.#cohortOf = this.devices.map((device) => {
      const policy = policies.ofDevice(device);
      let cohort = cohorts.get(policy);
      if (cohort === undefined) {
        const now = policyAt('missing' in policy ? unknownPolicy : policy, snapshot.at);
        changesAt = Math.min(changesAt, now.changesAt ?? Number.POSITIVE_INFINITY);
        cohorts.set(policy, (cohort = { policy: withIsolation(now.policy) }));
      }
      return cohort;
    });
    this.changesAt = changesAt;
  }

  /** The places of the devices that a peer names. */
  #named(peer: Peer): Bits {
    if ('all_devices' in peer) return this.#all;
    if ('device_id' in peer) {
      const bits = newBits(this.devices.length);
      const place = this.#places.get(peer.device_id);
      if (place !== undefined) addBit(bits, place);
      return bits;
    }
    const [first, ...others] = peer.labels.map((label) => this.#byLabel.get(label));
    if (first === undefined || others.includes(undefined)) return newBits(this.devices.length);
    const bits = Uint32Array.from(first);
    for (const other of others) if (other !== undefined) keepCommonBits(bits, other);
    return bits;
  }

  /** The devices that a peer names, by policy, with their addresses. */
  endOf(peer: Peer): End {
    const key = peerKey(peer);
    let end = this.#ends.get(key);
    if (end === undefined) this.#ends.set(key, (end = this.#makeEnd([...eachBit(this.#named(peer))])));
    return end;
  }

  /** An address as an end. It is among those that the index was made with. */
  endOfAddress(address: Address): End {
    const slots = newBits(this.addresses.size);
    addBit(slots, this.addresses.slotOf(address));
    const of = (family: Family) => ({ count: address.family === family ? 1 : 0, first: noDevice });
    return { parts: [{ devices: [noDevice], slots }], slots, families: { 4: of(4), 6: of(6) } };
  }

  #makeEnd(places: readonly number[]): End {
    const slots = newBits(this.addresses.size);
    const families = { 4: { count: 0, first: noDevice }, 6: { count: 0, first: noDevice } };
    const parts = new Map<Cohort, { readonly cohort: Cohort; readonly devices: number[]; readonly slots: Bits }>();
    for (const place of places) {
      const cohort = this.#cohortOf[place] as Cohort;
      let part = parts.get(cohort);
      if (part === undefined) parts.set(cohort, (part = { cohort, devices: [], slots: newBits(this.addresses.size) }));
      part.devices.push(place);
      for (const slot of this.#slotsOf[place] ?? []) {
        addBit(slots, slot);
        addBit(part.slots, slot);
      }
      for (const family of [4, 6] as const) {
        if (!this.hasFamily(place, family)) continue;
        families[family].count += 1;
        if (families[family].first === noDevice) families[family].first = place;
      }
    }
    return { parts: [...parts.values()], slots, families };
  }

  find(id: string): SnapshotDevice | undefined {
    const place = this.#places.get(id);
    return place === undefined ? undefined : this.devices[place];
  }

  cohortOf(place: number): Cohort {
    return this.#cohortOf[place] as Cohort;
  }

  /** The numbers of a device's addresses, or of none. */
  slotsOf(place: number): readonly number[] {
    return this.#slotsOf[place] ?? [];
  }

  hasFamily(place: number, family: Family): boolean {
    return this.devices[place]?.identity.addresses.some((address) => address.family === family) === true;
  }

  /** The devices that have the address. */
  ownersOf(slot: number): readonly number[] {
    return this.#ownersOf[slot] ?? [];
  }
}
