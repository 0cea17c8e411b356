/**
 * Owns the devices of one moment as sets: by label, by address, and by kind. Devices of one kind have the same list, labels and isolation, so they have the
 * same policy, whatever the groups are.
 */
import type { Address } from '../../policy/address.ts';
import { isNamed } from '../../policy/fleet/selector.ts';
import { isolationKey } from '../../policy/isolation/isolation.ts';
import { Isolations } from '../../policy/isolation/isolations.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { Family, Peer } from '../../policy/rule.ts';
import type { Organization, OrganizationDevice } from '../organization.ts';
import { ascending, lowerBound, type SortedAddresses } from './address-index.ts';
import type { Effort } from './effort.ts';

/** Devices that have the same policy; one of them stands for all. */
export interface Kind {
  readonly key: string;
  readonly device: OrganizationDevice;
  readonly isolation: PolicyIsolation | undefined;
}

/** What a device itself says about its kind. Devices never change. */
const ownKeys = new WeakMap<OrganizationDevice, string>();

function ownKey(device: OrganizationDevice): string {
  let key = ownKeys.get(device);
  if (key === undefined) {
    const { list, trial, identity } = device;
    key = [list.join(' '), identity.labels.join(' '), trial === undefined ? '' : JSON.stringify(trial)].join('|');
    ownKeys.set(device, key);
  }
  return key;
}

/** Devices, and numbers, that are taken between two pauses. */
const atOnce = 500;

interface OwnedAddress {
  readonly value: bigint;
  readonly place: number;
}

/** Sorts in runs, which are then merged, and pauses in between. */
function* sorted(addresses: readonly OwnedAddress[]): Generator<void, readonly OwnedAddress[]> {
  let runs: (readonly OwnedAddress[])[] = [];
  for (let from = 0; from < addresses.length; from += atOnce) {
    runs.push(addresses.slice(from, from + atOnce).toSorted((a, b) => ascending(a.value, b.value)));
    yield;
  }
  while (runs.length > 1) {
    const merged: (readonly OwnedAddress[])[] = [];
    for (let run = 0; run < runs.length; run += 2) merged.push(yield* merge(runs[run] ?? [], runs[run + 1] ?? []));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* merge(a: readonly OwnedAddress[], b: readonly OwnedAddress[]): Generator<void, readonly OwnedAddress[]> {
  const all: OwnedAddress[] = [];
  let [i, j] = [0, 0];
  for (;;) {
    const [one, other] = [a[i], b[j]];
    const next = other === undefined || (one !== undefined && one.value <= other.value) ? one : other;
    if (next === undefined) return all;
    if (next === one) i += 1;
    else j += 1;
    all.push(next);
    if (all.length % (4 * atOnce) === 0) yield;
  }
}

export class FleetIndex {
  readonly source: Organization['devices'];
  readonly devices: OrganizationDevice[] = [];
  readonly kinds: Kind[] = [];
  /** The kind of each device. */
  readonly kindOf: number[] = [];
  readonly addresses: SortedAddresses & { readonly [F in Family]: bigint[] } = { 4: [], 6: [] };
  readonly #slotsOf: number[][] = [];
  readonly #ownersOf: number[][] = [];
  readonly #places = new Map<string, number>();
  readonly #byLabel = new Map<string, number[]>();
  #everyone: readonly number[] | undefined;

  private constructor(source: Organization['devices']) {
    this.source = source;
  }

  /** The caller can do other work at each pause. */
  static *build(source: Organization['devices']): Generator<void, FleetIndex> {
    const index = new FleetIndex(source);
    const owned: { readonly [F in Family]: OwnedAddress[] } = { 4: [], 6: [] };
    for (const device of source.values()) {
      const place = index.#add(device);
      for (const { family, value } of device.identity.addresses) owned[family].push({ value, place });
      if (place % atOnce === 0) yield;
    }
    yield* index.#sortKinds();
    for (const family of [4, 6] as const) yield* index.#number(family, yield* sorted(owned[family]));
    return index;
  }

  #add(device: OrganizationDevice): number {
    const place = this.devices.push(device) - 1;
    this.#slotsOf.push([]);
    this.#places.set(device.id, place);
    for (const label of device.identity.labels) {
      const same = this.#byLabel.get(label);
      if (same === undefined) this.#byLabel.set(label, [place]);
      else same.push(place);
    }
    return place;
  }

  *#sortKinds(): Generator<void> {
    const isolations = new Isolations(
      this.devices.flatMap(({ identity }) => (identity.isolated === undefined ? [] : identity)),
    );
    const numbers = new Map<string, number>();
    for (const [place, device] of this.devices.entries()) {
      const isolation = isolations.of(device.identity);
      const key = isolation === undefined ? ownKey(device) : `${ownKey(device)}|${isolationKey(isolation)}`;
      let number = numbers.get(key);
      if (number === undefined) numbers.set(key, (number = this.kinds.push({ key, device, isolation }) - 1));
      this.kindOf.push(number);
      if (place % atOnce === 0) yield;
    }
  }

  /** Numbers the addresses of a family, which ascend. */
  *#number(family: Family, owned: readonly OwnedAddress[]): Generator<void> {
    const values = this.addresses[family];
    for (const [done, { value, place }] of owned.entries()) {
      if (values.at(-1) !== value) {
        values.push(value);
        this.#ownersOf.push([]);
      }
      const owners = this.#ownersOf.at(-1);
      if (owners?.at(-1) !== place) {
        owners?.push(place);
        this.#slotsOf[place]?.push(this.#ownersOf.length - 1);
      }
      if (done % (4 * atOnce) === 0) yield;
    }
  }

  /** How many addresses the devices have; their numbers are below. */
  get slots(): number {
    return this.#ownersOf.length;
  }

  /** The places of the devices that a peer names, ascending. */
  named(peer: Peer, effort: Effort): readonly number[] {
    if ('all_devices' in peer) return (this.#everyone ??= this.devices.map((_, place) => place));
    if ('device_id' in peer) {
      const place = this.#places.get(peer.device_id);
      return place === undefined ? [] : [place];
    }
    const lists = peer.labels.map((label) => this.#byLabel.get(label) ?? []);
    const shortest = lists.reduce((least, list) => (list.length < least.length ? list : least), lists[0] ?? []);
    if (lists.length === 1) return shortest;
    effort.take(4 * shortest.length);
    return shortest.filter((place) => isNamed(peer, (this.devices[place] as OrganizationDevice).identity));
  }

  placeOf(id: string): number | undefined {
    return this.#places.get(id);
  }

  find(id: string): OrganizationDevice | undefined {
    const place = this.#places.get(id);
    return place === undefined ? undefined : this.devices[place];
  }

  /** The numbers of a device's addresses, ascending. */
  slotsOf(place: number): readonly number[] {
    return this.#slotsOf[place] ?? [];
  }

  /** The devices that have the address of this number. */
  ownersOf(slot: number): readonly number[] {
    return this.#ownersOf[slot] ?? [];
  }

  /** The devices that have the address. */
  ownersAt({ family, value }: Address): readonly number[] {
    const values = this.addresses[family];
    const place = lowerBound(values, value);
    return values[place] === value ? this.ownersOf(place + (family === 4 ? 0 : this.addresses[4].length)) : [];
  }

  hasFamily(place: number, family: Family): boolean {
    return this.devices[place]?.identity.addresses.some((address) => address.family === family) === true;
  }
}
