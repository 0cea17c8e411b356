/** Owns which groups name which peers, and which of these mean other addresses once a device changed. */
import type { DeviceIdentity } from '../policy/fleet/identity.ts';
import type { GroupId } from '../policy/ids.ts';
import type { Peer } from '../policy/rule.ts';
import { isOtherPeer } from './fleet.ts';

interface NamedPeer {
  readonly peer: Peer;
  /** Those that name it. */
  readonly groups: Set<GroupId>;
}

const firstLabel = (peer: Peer): string | undefined => ('labels' in peer ? peer.labels[0] : undefined);

const none: ReadonlyMap<string, Peer> = new Map();

export class NamedPeers {
  /** By the keys of the peers. */
  readonly #named = new Map<string, NamedPeer>();
  /** The keys of those that ask for labels, by the first of these, which a device must have to be named. */
  readonly #byLabel = new Map<string, Set<string>>();
  readonly #ofGroup = new Map<GroupId, ReadonlyMap<string, Peer>>();

  /** The group names these peers from now on. */
  set(group: GroupId, peers: ReadonlyMap<string, Peer>): void {
    for (const [key, peer] of peers) {
      const named = this.#named.get(key) ?? { peer, groups: new Set() };
      this.#named.set(key, named);
      named.groups.add(group);
      const first = firstLabel(peer);
      if (first !== undefined) this.#byLabel.set(first, (this.#byLabel.get(first) ?? new Set()).add(key));
    }
    for (const [key, peer] of this.#ofGroup.get(group) ?? none) if (!peers.has(key)) this.#drop(group, key, peer);
    if (peers.size > 0) this.#ofGroup.set(group, peers);
    else this.#ofGroup.delete(group);
  }

  has(key: string): boolean {
    return this.#named.has(key);
  }

  /** The groups that name the peer. */
  namedBy(key: string): Iterable<GroupId> {
    return this.#named.get(key)?.groups ?? [];
  }

  /** The keys of the peers that mean other addresses. There may be some among them for which another device has the same addresses. */
  changedBy(before: DeviceIdentity | undefined, after: DeviceIdentity | undefined): readonly string[] {
    if (this.#named.size === 0) return [];
    const keys = new Set<string>();
    for (const device of [before, after]) {
      if (device === undefined) continue;
      for (const key of ['all', `device ${device.id}`]) if (this.#named.has(key)) keys.add(key);
      for (const label of device.labels) for (const key of this.#byLabel.get(label) ?? []) keys.add(key);
    }
    return [...keys].filter((key) => {
      const peer = this.#named.get(key)?.peer;
      return peer !== undefined && isOtherPeer(peer, before, after);
    });
  }

  #drop(group: GroupId, key: string, peer: Peer): void {
    const groups = this.#named.get(key)?.groups;
    groups?.delete(group);
    if (groups === undefined || groups.size > 0) return;
    this.#named.delete(key);
    const first = firstLabel(peer);
    if (first !== undefined) this.#byLabel.get(first)?.delete(key);
  }
}
