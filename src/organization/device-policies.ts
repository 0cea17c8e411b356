/**
 * Owns the policy of each device in an organization: effective, with resolved peers. Devices with the same policy share one
 * object.
 */
import type { EffectivePolicy, GroupSelection, MissingGroups } from '../policy/effective.ts';
import { resolveGroup, resolveIsolation } from '../policy/fleet/resolve.ts';
import type { DeviceId } from '../policy/ids.ts';
import { isolationKey } from '../policy/isolation/isolation.ts';
import { Isolations } from '../policy/isolation/isolations.ts';
import type { PolicyIsolation } from '../policy/isolation/policy-isolation.ts';
import type { Members, Peer, PolicyGroup } from '../policy/rule.ts';
import { policyAt } from '../policy/time/policy-at.ts';
import { cohortOf, groupsKey, GroupsInEffect } from './groups-in-effect.ts';
import { OrganizationFleet } from './fleet.ts';
import type { Organization, OrganizationDevice } from './organization.ts';

/** What a device's policy is; `missing` where a group of its list is not in the organization. */
export type DevicePolicy = EffectivePolicy | MissingGroups;

/** A group with the members that its peers had when it was resolved. */
interface ResolvedGroup {
  readonly members: readonly Members[];
  readonly group: PolicyGroup;
}

/** Of each group the last resolution: it holds for every organization in which its peers are the same objects. */
const resolutions = new WeakMap<PolicyGroup, ResolvedGroup>();

const peersOf = ({ inbound, outbound }: PolicyGroup): readonly Peer[] =>
  [...inbound, ...outbound].flatMap(({ peers = [] }) => peers);

/** Two of these that are one object mean the same; so do the groups in them. */
export class DevicePolicies {
  readonly fleet: OrganizationFleet;
  readonly #organization: Organization;
  /** By what decides which groups are in effect: devices that share it share their policy. */
  readonly #byCohort = new Map<string, DevicePolicy>();
  readonly #isolations: Isolations;
  /** By the groups in effect, and by the isolation where one concerns the device. */
  readonly #byGroups = new Map<string, EffectivePolicy>();
  readonly #resolved = new Map<PolicyGroup, PolicyGroup>();
  readonly #groups: GroupsInEffect;

  constructor(organization: Organization) {
    this.#organization = organization;
    this.#groups = new GroupsInEffect(organization);
    this.fleet = new OrganizationFleet(organization.devices);
    this.#isolations = new Isolations(this.fleet.isolated());
  }

  /** The device's policy with the addresses of its peers; undefined where there is no such device. */
  of(id: DeviceId): DevicePolicy | undefined {
    const device = this.#organization.devices.get(id);
    return device && this.ofDevice(device);
  }

  ofDevice(device: OrganizationDevice): DevicePolicy {
    let cohort = cohortOf(device);
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
    const key = `${groupsKey(policy)}|${isolationKey(isolation)}`;
    const known = this.#byGroups.get(key);
    if (known !== undefined) return known;
    const isolated = { ...policy, isolation: resolveIsolation(isolation, this.fleet) };
    this.#byGroups.set(key, isolated);
    return isolated;
  }

  /** Which groups the device has, and why. */
  selectionOn(device: OrganizationDevice): GroupSelection<PolicyGroup> {
    return this.#groups.selectionOn(device);
  }

  #work(device: OrganizationDevice): DevicePolicy {
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
      this.#organization.at,
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

const policies = new WeakMap<Organization, DevicePolicies>();

/** The policies of an organization, each worked out once. */
export function policiesOf(organization: Organization): DevicePolicies {
  let known = policies.get(organization);
  if (known === undefined) policies.set(organization, (known = new DevicePolicies(organization)));
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
