/**
 * Owns the devices that rules name as peers. The agent follows them once a rule names any, and resolves them for each
 * policy.
 */
import type { DeviceIdentity as IdentityRecord } from '../../api/device.ts';
import type { Change } from '../../client/cache.ts';
import type { WatchedByIdentity } from '../../api/watch.ts';
import type { EffectivePolicy, NextPolicy } from '../../policy/effective.ts';
import { Fleet, type PeerChange } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { NotUnderstood } from '../../policy/fleet/not-understood.ts';
import { peersOf, resolvePolicy } from '../../policy/fleet/resolve.ts';
import { policyIsolation } from '../../policy/isolation/isolation.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { understoodDevice } from './read-device.ts';

const sameGroups = (a: readonly PolicyGroup[] = [], b: readonly PolicyGroup[] = []): boolean =>
  a.length === b.length && a.every((group, i) => group === b[i]);

const sameNext = (a: NextPolicy | undefined, b: NextPolicy | undefined): boolean =>
  a === undefined || b === undefined ? a === b : a.at === b.at && madeOfSameGroups(a.policy, b.policy);

/** Whether both are made of the same groups, object by object. */
export const madeOfSameGroups = (a: EffectivePolicy, b: EffectivePolicy): boolean =>
  a.source === b.source &&
  a.isolation === b.isolation &&
  sameNext(a.next, b.next) &&
  sameGroups(a.groups, b.groups) &&
  sameGroups(a.guardrails?.forbid, b.guardrails?.forbid) &&
  sameGroups(a.guardrails?.require, b.guardrails?.require);

export class PeerDevices {
  readonly #fleet = new Fleet();
  /** Devices whose record is not understood. Each may decide about every other one. */
  readonly #unclear = new Map<string, NotUnderstood>();
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

  /** Takes in a device. Answers whether isolations may have changed by that. While others are not wanted, only those that concern all are shown here. */
  see(change: Change<'device', WatchedByIdentity>): boolean {
    const wasIsolated = this.#unclear.delete(change.id) || this.#fleet.get(change.id)?.isolated !== undefined;
    if (change.type === 'deleted') this.#note(this.#fleet.delete(change.id));
    else {
      const device = understoodDevice(change.new);
      if (device instanceof NotUnderstood) this.#unclear.set(change.id, device);
      else this.#note(this.#fleet.set(device));
    }
    return wasIsolated || (change.type !== 'deleted' && change.new.isolated !== undefined);
  }

  #note(changes: readonly PeerChange[]): void {
    if (changes.length > 0) this.#last = undefined;
  }

  /** Why no policy can be known; nothing where all devices are understood. */
  get unclear(): NotUnderstood | undefined {
    const [first] = this.#unclear.values();
    return first;
  }

  /** What isolated devices mean for this one. */
  isolationOf(own: IdentityRecord): PolicyIsolation | undefined {
    return policyIsolation(deviceIdentity(own), this.#fleet.isolated);
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
