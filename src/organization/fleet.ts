/** Owns the members of peers in an organization, and the lookup of a device by address. */
import type { Address } from '../policy/address.ts';
import type { DeviceIdentity } from '../policy/fleet/identity.ts';
import { isNamed, peerKey } from '../policy/fleet/selector.ts';
import type { PeerLookup } from '../policy/fleet/rule-peers.ts';
import type { DeviceId } from '../policy/ids.ts';
import { mergeRanges, type Range, type RangeSet } from '../policy/range.ts';
import type { Family, Members, Peer } from '../policy/rule.ts';
import type { OrganizationDevice } from './organization.ts';
import type { LayeredMap } from './layered-map.ts';

type Devices = ReadonlyMap<DeviceId, OrganizationDevice>;

interface OwnedAddress {
  readonly value: bigint;
  readonly device: OrganizationDevice;
}

const byValue = (a: OwnedAddress, b: OwnedAddress): number => (a.value < b.value ? -1 : a.value > b.value ? 1 : 0);

/** Devices that `DeviceIndex.build` takes between two pauses: well under a millisecond. */
const indexedAtOnce = 500;

/** What is worked out once for the devices below all layers. */
class DeviceIndex {
  readonly isolated: OrganizationDevice[] = [];
  readonly #devices: Devices;
  readonly #byLabel = new Map<string, OrganizationDevice[]>();
  readonly #members = new Map<string, Members>();
  #addresses: { readonly [F in Family]: readonly OwnedAddress[] } | undefined;

  constructor(devices: Devices) {
    this.#devices = devices;
  }

  /** Fills the index, and pauses after every few hundred devices. */
  *build(): Generator<void> {
    let count = 0;
    for (const device of this.#devices.values()) {
      for (const label of device.identity.labels) {
        const same = this.#byLabel.get(label);
        if (same === undefined) this.#byLabel.set(label, [device]);
        else same.push(device);
      }
      if (device.identity.isolated !== undefined) this.isolated.push(device);
      if (++count % indexedAtOnce === 0) yield;
    }
    this.addresses(4);
    yield;
  }

  /** Those among which the devices that the peer names are. */
  candidates(peer: Peer): Iterable<OrganizationDevice> {
    if ('device_id' in peer) {
      const device = this.#devices.get(peer.device_id as DeviceId);
      return device === undefined ? [] : [device];
    }
    return 'labels' in peer ? (this.#byLabel.get(peer.labels[0] ?? '') ?? []) : this.#devices.values();
  }

  /** The same object for peers that always name the same devices. */
  membersOf(peer: Peer): Members {
    const key = peerKey(peer);
    let members = this.#members.get(key);
    if (members === undefined) this.#members.set(key, (members = membersOf(peer, this.candidates(peer))));
    return members;
  }

  /** The addresses of all devices, ascending. */
  addresses(family: Family): readonly OwnedAddress[] {
    this.#addresses ??= ownedAddresses(this.#devices.values());
    return this.#addresses[family];
  }
}

function membersOf(peer: Peer, devices: Iterable<OrganizationDevice>): Members {
  const ranges: { readonly [F in Family]: Range[] } = { 4: [], 6: [] };
  for (const { identity } of devices) {
    if (!isNamed(peer, identity)) continue;
    for (const { family, value } of identity.addresses) ranges[family].push({ first: value, last: value });
  }
  return { v4: mergeRanges(ranges[4]), v6: mergeRanges(ranges[6]) };
}

function ownedAddresses(devices: Iterable<OrganizationDevice>): { readonly [F in Family]: readonly OwnedAddress[] } {
  const all: { readonly [F in Family]: OwnedAddress[] } = { 4: [], 6: [] };
  for (const device of devices) {
    for (const { family, value } of device.identity.addresses) all[family].push({ value, device });
  }
  return { 4: all[4].toSorted(byValue), 6: all[6].toSorted(byValue) };
}

/** The place of the first address that is not below the value. */
function placeOf(addresses: readonly OwnedAddress[], value: bigint): number {
  let [low, high] = [0, addresses.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((addresses[middle] as OwnedAddress).value < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function* ownersIn(addresses: readonly OwnedAddress[], set: RangeSet): Generator<OwnedAddress> {
  for (const { first, last } of set) {
    for (let place = placeOf(addresses, first); place < addresses.length; place += 1) {
      const owned = addresses[place] as OwnedAddress;
      if (owned.value > last) break;
      yield owned;
    }
  }
}

const indexes = new WeakMap<Devices, DeviceIndex>();

/** Works out what every question about these devices needs. The caller can do other work at each pause. */
export function* indexDevices(devices: Devices): Generator<void, DeviceIndex> {
  const known = indexes.get(devices);
  if (known !== undefined) return known;
  const index = new DeviceIndex(devices);
  yield* index.build();
  indexes.set(devices, index);
  return index;
}

function indexOf(devices: Devices): DeviceIndex {
  const steps = indexDevices(devices);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Each list has no doubles. */
const sameAddresses = (a: readonly Address[], b: readonly Address[]): boolean =>
  a.length === b.length &&
  a.every(({ family, value }) => b.some((one) => one.family === family && one.value === value));

const addressesIf = (peer: Peer, identity: DeviceIdentity | undefined): readonly Address[] =>
  identity !== undefined && isNamed(peer, identity) ? identity.addresses : [];

/** Whether the peer means other addresses by this change of a device, as far as no other device has the same ones. */
export const isOtherPeer = (
  peer: Peer,
  before: DeviceIdentity | undefined,
  after: DeviceIdentity | undefined,
): boolean => !sameAddresses(addressesIf(peer, before), addressesIf(peer, after));

/** Those of the devices that the peer names. */
export function* namedBy<Device extends Pick<OrganizationDevice, 'identity'>>(
  peer: Peer,
  devices: Iterable<Device>,
): Generator<Device> {
  for (const device of devices) if (isNamed(peer, device.identity)) yield device;
}

const noMembers: Members = { v4: [], v6: [] };

/** Whom rules name, as far as one address is among them: expanding a whole fleet would be too much for one packet. `owners`: the devices that have it. */
export function peersAt(
  { family, value }: Address,
  owners: readonly Pick<OrganizationDevice, 'identity'>[],
  get: PeerLookup['get'],
): PeerLookup {
  const only = [{ first: value, last: value }];
  const members: Members = family === 4 ? { v4: only, v6: [] } : { v4: [], v6: only };
  return {
    addressesOf: (peer) => (owners.some(({ identity }) => isNamed(peer, identity)) ? members : noMembers),
    get,
  };
}

/** What an address set is called: its devices, and whether it holds other addresses too. */
export interface NamedSet {
  /** By name, then by id; each once. */
  readonly devices: readonly OrganizationDevice[];
  /** Whether the set holds an address that no device has. */
  readonly others: boolean;
}

const sizeOf = (set: RangeSet): bigint => set.reduce((sum, { first, last }) => sum + last - first + 1n, 0n);

const byName = (a: OrganizationDevice, b: OrganizationDevice): number =>
  a.hostname < b.hostname ? -1 : a.hostname > b.hostname ? 1 : a.id < b.id ? -1 : 1;

/** The members of a peer are one object for as long as no layer changes them, also in other states of the same devices. */
export class OrganizationFleet {
  readonly #devices: LayeredMap<DeviceId, OrganizationDevice>;
  readonly #index: DeviceIndex;
  readonly #members = new Map<string, Members>();
  #changed: { readonly [F in Family]: readonly OwnedAddress[] } | undefined;

  constructor(devices: LayeredMap<DeviceId, OrganizationDevice>) {
    this.#devices = devices;
    this.#index = indexOf(devices.below);
  }

  get(id: string): DeviceIdentity | undefined {
    return this.#devices.get(id as DeviceId)?.identity;
  }

  isolated(): readonly DeviceIdentity[] {
    const { changes } = this.#devices;
    const unchanged = this.#index.isolated.filter(({ id }) => !changes.has(id));
    return [...unchanged, ...changes.values()].flatMap((device) =>
      device?.identity.isolated ? [device.identity] : [],
    );
  }

  addressesOf(peer: Peer): Members {
    if (!this.#isTouched(peer)) return this.#index.membersOf(peer);
    const key = peerKey(peer);
    let members = this.#members.get(key);
    if (members === undefined) this.#members.set(key, (members = membersOf(peer, this.#candidates(peer))));
    return members;
  }

  /** The devices that the peer names. */
  devicesOf(peer: Peer): Generator<OrganizationDevice> {
    return namedBy(peer, this.#candidates(peer));
  }

  /** The devices whose own addresses are in the set. */
  nameSet({ v4, v6 }: Members): NamedSet {
    this.#changed ??= ownedAddresses([...this.#devices.changes.values()].flatMap((device) => device ?? []));
    const devices = new Set<OrganizationDevice>();
    let others = false;
    for (const [family, set] of [[4, v4] as const, [6, v6] as const]) {
      const values = new Set<bigint>();
      for (const { value, device } of ownersIn(this.#index.addresses(family), set)) {
        if (this.#devices.changes.has(device.id)) continue;
        devices.add(device);
        values.add(value);
      }
      for (const { value, device } of ownersIn(this.#changed[family], set)) {
        devices.add(device);
        values.add(value);
      }
      others ||= sizeOf(set) > BigInt(values.size);
    }
    return { devices: [...devices].toSorted(byName), others };
  }

  /** Whether a layer changes the addresses of the peer. */
  #isTouched(peer: Peer): boolean {
    for (const [id, device] of this.#devices.changes) {
      const before = this.#devices.below.get(id);
      if (isOtherPeer(peer, before?.identity, device?.identity)) return true;
    }
    return false;
  }

  *#candidates(peer: Peer): Generator<OrganizationDevice> {
    const { changes } = this.#devices;
    for (const device of this.#index.candidates(peer)) if (!changes.has(device.id)) yield device;
    for (const device of changes.values()) if (device !== undefined) yield device;
  }
}
