/** Owns the fleet: every device that rules may name, and the current addresses of each peer. */
import type { Address } from '../address.ts';
import { mergeRanges, type RangeSet } from '../range.ts';
import type { Family, Members, Peer } from '../rule.ts';
import type { DeviceIdentity } from './identity.ts';
import { MembersHistory } from './members.ts';
import { isNamed, peerKey } from './selector.ts';

/** What a change of one device did to a peer: the addresses that the peer gained and lost. */
export interface PeerChange {
  readonly peer: Peer;
  readonly gained: readonly Address[];
  readonly lost: readonly Address[];
}

/** The addresses of one peer, each with how many devices have it: one that two share leaves with the last of them. */
class PeerAddresses {
  readonly peer: Peer;
  readonly #counts: { readonly [F in Family]: Map<bigint, number> } = { 4: new Map(), 6: new Map() };
  readonly #history = new MembersHistory(
    () => this.#written(),
    ({ family, value }) => this.#counts[family].has(value),
  );

  constructor(peer: Peer) {
    this.peer = peer;
  }

  /** Whether the address is new here. */
  add(address: Address): boolean {
    const { family, value } = address;
    const count = this.#counts[family].get(value) ?? 0;
    if (count === 0) this.#history.note(address, true, this.size);
    this.#counts[family].set(value, count + 1);
    return count === 0;
  }

  /** Removes the address, and returns whether no device has it any more. */
  remove(address: Address): boolean {
    const { family, value } = address;
    const count = this.#counts[family].get(value) ?? 0;
    if (count === 1) this.#history.note(address, false, this.size);
    if (count > 1) this.#counts[family].set(value, count - 1);
    else this.#counts[family].delete(value);
    return count === 1;
  }

  get members(): Members {
    return this.#history.now;
  }

  get size(): number {
    return this.#counts[4].size + this.#counts[6].size;
  }

  #written(): Members {
    const ranges = (family: Family): RangeSet =>
      mergeRanges([...this.#counts[family].keys()].map((value) => ({ first: value, last: value })));
    return { v4: ranges(4), v6: ranges(6) };
  }
}

/**
 * `addressesOf` always reflects the current devices. From the first request for a peer on, the reported changes add up
 * to the difference between any two such answers.
 */
export class Fleet {
  readonly #devices = new Map<string, DeviceIdentity>();
  readonly #byLabel = new Map<string, Set<string>>();
  readonly #isolated = new Map<string, DeviceIdentity>();
  /** The peers that were asked for, by their keys. */
  readonly #holdings = new Map<string, PeerAddresses>();
  #named = 0;
  /** Those of them that ask for labels, by the first of these, which a device must have to be named. */
  readonly #waiting = new Map<string, Set<PeerAddresses>>();

  constructor(devices: Iterable<DeviceIdentity> = []) {
    for (const device of devices) this.set(device);
  }

  get size(): number {
    return this.#devices.size;
  }

  /** The addresses of all peers that were asked for together. */
  get named(): number {
    return this.#named;
  }

  get(id: string): DeviceIdentity | undefined {
    return this.#devices.get(id);
  }

  /** The devices that are isolated, or were until their time was over. */
  get isolated(): Iterable<DeviceIdentity> {
    return this.#isolated.values();
  }

  /** Takes the device in, or what it is now. Answers which peers changed by that, of those that were asked for. */
  set(device: DeviceIdentity): readonly PeerChange[] {
    const before = this.#devices.get(device.id);
    this.#devices.set(device.id, device);
    if (device.isolated !== undefined) this.#isolated.set(device.id, device);
    else this.#isolated.delete(device.id);
    for (const label of before?.labels ?? []) this.#byLabel.get(label)?.delete(device.id);
    for (const label of device.labels) setIn(this.#byLabel, label).add(device.id);
    return this.#change(before, device);
  }

  delete(id: string): readonly PeerChange[] {
    const before = this.#devices.get(id);
    if (before === undefined) return [];
    this.#devices.delete(id);
    this.#isolated.delete(id);
    for (const label of before.labels) this.#byLabel.get(label)?.delete(id);
    return this.#change(before, undefined);
  }

  addressesOf(peer: Peer): Members {
    return this.#holding(peer).members;
  }

  devicesOf(peer: Peer): readonly DeviceIdentity[] {
    return this.#candidates(peer).filter((device) => isNamed(peer, device));
  }

  /** Forgets all peers except these. Changes of the others are not reported until they are requested again. */
  keepOnly(peers: Iterable<Peer>): void {
    const keys = new Set([...peers].map(peerKey));
    for (const [key, holding] of this.#holdings) {
      if (keys.has(key)) continue;
      this.#holdings.delete(key);
      this.#named -= holding.size;
      const first = firstLabel(holding.peer);
      if (first !== undefined) this.#waiting.get(first)?.delete(holding);
    }
  }

  #change(before: DeviceIdentity | undefined, after: DeviceIdentity | undefined): readonly PeerChange[] {
    const asked = new Set<PeerAddresses>();
    this.#addAsked(before, asked);
    this.#addAsked(after, asked);
    const changes: PeerChange[] = [];
    for (const holding of asked) {
      const { peer } = holding;
      // First what comes, so that what stays is never gone in between.
      const gained = addressesIf(peer, after).filter((address) => holding.add(address));
      const lost = addressesIf(peer, before).filter((address) => holding.remove(address));
      this.#named += gained.length - lost.length;
      if (gained.length + lost.length > 0) changes.push({ peer, gained, lost });
    }
    return changes;
  }

  /** The peers that may name the device. */
  #addAsked(device: DeviceIdentity | undefined, asked: Set<PeerAddresses>): void {
    if (device === undefined) return;
    const [all, one] = [this.#holdings.get('all'), this.#holdings.get(`device ${device.id}`)];
    if (all !== undefined) asked.add(all);
    if (one !== undefined) asked.add(one);
    for (const label of device.labels) for (const holding of this.#waiting.get(label) ?? []) asked.add(holding);
  }

  #holding(peer: Peer): PeerAddresses {
    const key = peerKey(peer);
    let holding = this.#holdings.get(key);
    if (holding !== undefined) return holding;
    holding = new PeerAddresses(peer);
    for (const { addresses } of this.devicesOf(peer)) for (const address of addresses) holding.add(address);
    this.#holdings.set(key, holding);
    this.#named += holding.size;
    const first = firstLabel(peer);
    if (first !== undefined) setIn(this.#waiting, first).add(holding);
    return holding;
  }

  /** The devices among which those that the peer names are. */
  #candidates(peer: Peer): readonly DeviceIdentity[] {
    const first = firstLabel(peer);
    const ids = 'device_id' in peer ? [peer.device_id] : first === undefined ? undefined : this.#byLabel.get(first);
    if (ids === undefined) return first === undefined ? [...this.#devices.values()] : [];
    return [...ids].flatMap((id) => this.#devices.get(id) ?? []);
  }
}

const none: readonly Address[] = [];
/** The device's addresses, where the peer names it. */
const addressesIf = (peer: Peer, device: DeviceIdentity | undefined): readonly Address[] =>
  device !== undefined && isNamed(peer, device) ? device.addresses : none;

const firstLabel = (peer: Peer): string | undefined => ('labels' in peer ? peer.labels[0] : undefined);

function setIn<T>(sets: Map<string, Set<T>>, key: string): Set<T> {
  let set = sets.get(key);
  if (set === undefined) sets.set(key, (set = new Set()));
  return set;
}
