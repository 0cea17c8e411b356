/**
 * Owns the policy of each device in a snapshot: effective, with resolved peers. Devices with the same policy share one
 * object.
 */
import { listFor, type EffectivePolicy, type GroupSelection, type MissingGroups } from '../effective.ts';
import { resolveGroup, resolveIsolation } from '../fleet/resolve.ts';
import type { DeviceId } from '../ids.ts';
import { isolationKey } from '../isolation/isolation.ts';
import { Isolations } from '../isolation/isolations.ts';
import type { PolicyIsolation } from '../isolation/policy-isolation.ts';
import type { Members, Peer, PolicyGroup } from '../rule.ts';
import { policyAt } from '../time/policy-at.ts';
import { groupsKey, GroupsInEffect, selecting } from './groups-in-effect.ts';
import { SnapshotFleet } from './snapshot-fleet.ts';
import type { PolicySnapshot, SnapshotDevice } from './snapshot.ts';

/** What a device's policy is; `missing` where a group of its list is not in the snapshot. */
export type DevicePolicy = EffectivePolicy | MissingGroups;

/** A group with the members that its peers had when it was resolved. */
interface ResolvedGroup {
  readonly members: readonly Members[];
  readonly group: PolicyGroup;
}

/** Of each group the last resolution: it holds for every snapshot in which its peers are the same objects. */
const resolutions = new WeakMap<PolicyGroup, ResolvedGroup>();

const peersOf = ({ inbound, outbound }: PolicyGroup): readonly Peer[] =>
  [...inbound, ...outbound].flatMap(({ peers = [] }) => peers);

/** Two of these that are one object mean the same; so do the groups in them. */
export class DevicePolicies {
  readonly fleet: SnapshotFleet;
  readonly #snapshot: PolicySnapshot;
  /** By what decides which groups are in effect: devices that share it share their policy. */
  readonly #byCohort = new Map<string, DevicePolicy>();
  readonly #cohorts = new WeakMap<SnapshotDevice, string>();
  readonly #isolations: Isolations;
  /** By the groups in effect. */
  readonly #byGroups = new Map<string, EffectivePolicy>();
  readonly #resolved = new Map<PolicyGroup, PolicyGroup>();
  readonly #groups: GroupsInEffect;

  constructor(snapshot: PolicySnapshot) {
    this.#snapshot = snapshot;
    this.#groups = new GroupsInEffect(snapshot);
    this.fleet = new SnapshotFleet(snapshot.devices);
    this.#isolations = new Isolations(this.fleet.isolated());
  }

  /** The device's policy with the addresses of its peers; undefined where there is no such device. */
  of(id: DeviceId): DevicePolicy | undefined {
    const device = this.#snapshot.devices.get(id);
    return device && this.ofDevice(device);
  }

  ofDevice(device: SnapshotDevice): DevicePolicy {
    let cohort = this.#cohorts.get(device);
    if (cohort === undefined) {
      cohort = `${listFor(selecting(device)).join(' ')}|${device.identity.labels.join(' ')}`;
      this.#cohorts.set(device, cohort);
    }
    const isolation = this.#isolations.of(device.identity);
    if (isolation !== undefined) cohort += `|${isolationKey(isolation)}`;
    const known = this.#byCohort.get(cohort);
    if (known !== undefined) return known;
    const policy = this.#work(device);
    const isolated = isolation === undefined || 'missing' in policy ? policy : this.#isolate(policy, isolation);
    this.#byCohort.set(cohort, isolated);
    return isolated;
  }

  #isolate(policy: EffectivePolicy, isolation: PolicyIsolation): EffectivePolicy {
    return { ...policy, isolation: resolveIsolation(isolation, this.fleet) };
  }

  /** Which groups the device has, and why. */
  selectionOn(device: SnapshotDevice): GroupSelection<PolicyGroup> {
    return this.#groups.selectionOn(device);
  }

  #work(device: SnapshotDevice): DevicePolicy {
    const policy = this.#groups.of(device);
    if ('missing' in policy) return policy;
    const { forbid = [], require = [] } = policy.guardrails ?? {};
    const key = groupsKey(policy);
    const known = this.#byGroups.get(key);
    if (known !== undefined) return known;
    const resolve = (some: readonly PolicyGroup[]): readonly PolicyGroup[] => some.map((group) => this.#resolve(group));
    // What follows when a trial ends is none of this moment.
    const { next: _next, ...now } = policy;
    const { policy: resolved } = policyAt(
      {
        ...now,
        groups: resolve(policy.groups),
        ...(policy.guardrails && { guardrails: { forbid: resolve(forbid), require: resolve(require) } }),
      },
      this.#snapshot.at,
    );
    this.#byGroups.set(key, resolved);
    return resolved;
  }

  #resolve(group: PolicyGroup): PolicyGroup {
    const known = this.#resolved.get(group);
    if (known !== undefined) return known;
    const members = peersOf(group).map((peer) => this.fleet.addressesOf(peer));
    const last = resolutions.get(group);
    const isSame = last?.members.length === members.length && members.every((each, i) => each === last.members[i]);
    const resolved = isSame && last !== undefined ? last.group : resolveGroup(group, this.fleet);
    if (!isSame) resolutions.set(group, { members, group: resolved });
    this.#resolved.set(group, resolved);
    return resolved;
  }
}

const policies = new WeakMap<PolicySnapshot, DevicePolicies>();

/** The policies of a snapshot, each worked out once. */
export function policiesOf(snapshot: PolicySnapshot): DevicePolicies {
  let known = policies.get(snapshot);
  if (known === undefined) policies.set(snapshot, (known = new DevicePolicies(snapshot)));
  return known;
}

/** Of an isolated device, whom it allows may differ in addresses: then it does not count as the same. */
const isSameIsolation = (a: PolicyIsolation | undefined, b: PolicyIsolation | undefined): boolean =>
  a === b ||
  (a !== undefined &&
    b !== undefined &&
    a.own === undefined &&
    b.own === undefined &&
    isolationKey(a) === isolationKey(b));

/** Whether both are made of the same groups, which are the same objects: then they mean the same. */
export function isSameObjects(a: DevicePolicy | undefined, b: DevicePolicy | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined || 'missing' in a || 'missing' in b) return false;
  const same = (x: readonly PolicyGroup[] = [], y: readonly PolicyGroup[] = []): boolean =>
    x.length === y.length && x.every((group, i) => group === y[i]);
  return (
    isSameIsolation(a.isolation, b.isolation) &&
    same(a.groups, b.groups) &&
    same(a.guardrails?.forbid, b.guardrails?.forbid) &&
    same(a.guardrails?.require, b.guardrails?.require)
  );
}
