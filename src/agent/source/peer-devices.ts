/** Owns the devices that rules name as peers: followed once a rule names any, and looked up for each policy. */
import type { DeviceIdentity as IdentityRecord } from '../../api/device.ts';
import type { Change } from '../../client/cache.ts';
import type { WatchedByIdentity } from '../../api/watch.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { peersOf, resolvePolicy } from '../../policy/fleet/resolve.ts';
import type { PolicyGroup } from '../../policy/rule.ts';

/** What is known of another device: who it is, and nothing else of its record. */
export function identityOf(record: IdentityRecord): IdentityRecord {
  const { id, hostname, tunnel_ip, addresses, labels, revision } = record;
  const identity: { -readonly [F in keyof IdentityRecord]: IdentityRecord[F] } = { id, hostname, tunnel_ip, revision };
  if (addresses !== undefined) identity.addresses = addresses;
  if (labels !== undefined) identity.labels = labels;
  return identity;
}

const sameGroups = (a: readonly PolicyGroup[] = [], b: readonly PolicyGroup[] = []): boolean =>
  a.length === b.length && a.every((group, i) => group === b[i]);

/** Whether both are made of the same groups, object by object. */
export const madeOfSameGroups = (a: EffectivePolicy, b: EffectivePolicy): boolean =>
  a.source === b.source &&
  sameGroups(a.groups, b.groups) &&
  sameGroups(a.guardrails?.forbid, b.guardrails?.forbid) &&
  sameGroups(a.guardrails?.require, b.guardrails?.require);

export class PeerDevices {
  readonly #fleet = new Fleet();
  #wanted = false;
  /** The policy that was looked up last, and whether it is still true. */
  #last: { readonly policy: EffectivePolicy; readonly resolved: EffectivePolicy } | undefined;

  /** The policy whose peers are followed, and whether it names any. */
  #followed: { readonly policy: EffectivePolicy; readonly names: boolean } | undefined;

  /** Whether other devices than the own one are to be followed. */
  get wanted(): boolean {
    return this.#wanted;
  }

  /** From now on they are. The own one is among them. */
  want(own: IdentityRecord): void {
    this.#wanted = true;
    this.#fleet.set(deviceIdentity(own));
  }

  /** Devices that are known. */
  get size(): number {
    return this.#fleet.size;
  }

  see(change: Change<'device', WatchedByIdentity>): void {
    if (!this.#wanted) return;
    const changes =
      change.type === 'deleted' ? this.#fleet.delete(change.id) : this.#fleet.set(deviceIdentity(change.new));
    if (changes.length > 0) this.#last = undefined;
  }

  /** The policy with the addresses of its peers; nothing where these are not followed yet. */
  resolve(policy: EffectivePolicy): EffectivePolicy | undefined {
    if (this.#last !== undefined && madeOfSameGroups(this.#last.policy, policy)) return this.#last.resolved;
    if (policy !== this.#followed?.policy) {
      const peers = peersOf(policy);
      if (peers.length > 0 && !this.#wanted) return undefined;
      this.#fleet.keepOnly(peers);
      this.#followed = { policy, names: peers.length > 0 };
    }
    const resolved = this.#followed.names ? resolvePolicy(policy, this.#fleet) : policy;
    this.#last = { policy, resolved };
    return resolved;
  }
}
