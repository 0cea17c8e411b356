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
import { recordTooLarge, TooLarge, type Budget } from './budget.ts';
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

/** Addresses that one device may list; a server allows sixteen. */
const mostOfOneDevice = 1_024;

export class PeerDevices {
  readonly #budget: Budget;
  readonly #fleet = new Fleet();
  /** Addresses of all devices that are known. */
  #addresses = 0;
  /** Devices whose record is not understood. Each may decide about every other one. */
  readonly #unclear = new Map<string, NotUnderstood>();
  #wanted = false;
  /** The policy that was looked up last, and whether it is still true. */
  #last: { readonly policy: EffectivePolicy; readonly resolved: EffectivePolicy } | undefined;

  /** The policy whose peers are followed, and whether it names any. */
  #followed: { readonly policy: EffectivePolicy; readonly names: boolean } | undefined;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

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

  /** Throws where there is no room for the addresses of this device. */
  check({ addresses = [] }: IdentityRecord): void {
    const most = this.#budget.addresses;
    if (addresses.length > mostOfOneDevice) throw recordTooLarge(`a device has more than ${mostOfOneDevice} addresses`);
    if (this.#addresses + addresses.length > most) throw recordTooLarge(`the devices have more than ${most} addresses`);
  }

  /** Takes in a device. Answers whether isolations may have changed by that. While others are not wanted, only those that concern all are shown here. */
  see(change: Change<'device', WatchedByIdentity>): boolean {
    const before = this.#fleet.get(change.id);
    const wasIsolated = this.#unclear.delete(change.id) || before?.isolated !== undefined;
    if (change.type === 'deleted') this.#note(this.#fleet.delete(change.id));
    else {
      const device = understoodDevice(change.new);
      if (device instanceof NotUnderstood) this.#unclear.set(change.id, device);
      else this.#note(this.#fleet.set(device));
    }
    this.#addresses += (this.#fleet.get(change.id)?.addresses.length ?? 0) - (before?.addresses.length ?? 0);
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
    const most = this.#budget.ranges;
    let refused = 0;
    for (const { addresses } of this.#fleet.isolated) refused += addresses.length;
    if (refused > most) throw new TooLarge(`isolated devices have more than ${most} addresses`);
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
      for (const peer of peers) {
        this.#fleet.addressesOf(peer);
        this.#checkNamed();
      }
    }
    this.#checkNamed();
    const resolved = this.#followed.names ? resolvePolicy(policy, this.#fleet) : policy;
    this.#last = { policy, resolved };
    return resolved;
  }

  #checkNamed(): void {
    const most = this.#budget.addresses;
    if (this.#fleet.named <= most) return;
    this.#fleet.keepOnly([]);
    this.#followed = undefined;
    this.#last = undefined;
    throw new TooLarge(`the devices that rules name have more than ${most} addresses`);
  }
}
