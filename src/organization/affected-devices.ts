/**
 * Owns which devices' policies a change may touch, for who follows an organization change by change: which devices share their groups, which of them have a
 * group, and whom rules and isolations name. A change costs as much as it touches.
 *
 *     const index = new AffectedDevices(organization);
 *     for (const device of organization.devices.values()) index.setDevice(device.id, { to: device });
 *     const { devices } = index.setGroup(id, changed); // those whose policy may be another one
 */
import { listFor, mayApplyByLabel, type SelectingDevice } from '../policy/effective.ts';
import type { DeviceIdentity } from '../policy/fleet/identity.ts';
import type { DeviceId, GroupId } from '../policy/ids.ts';
import { Isolations } from '../policy/isolation/isolations.ts';
import type { PolicyIsolation } from '../policy/isolation/policy-isolation.ts';
import type { Peer } from '../policy/rule.ts';
import { isOtherPeer } from './fleet.ts';
import { cohortOf, GroupsInEffect, selecting } from './groups-in-effect.ts';
import { NamedPeers } from './named-peers.ts';
import {
  emptyOrganization,
  overlay,
  type GroupState,
  type Organization,
  type OrganizationDevice,
  type OrganizationGroup,
} from './organization.ts';
import { isolationOf } from './unclear-isolation.ts';

/** Devices that have the same groups. */
interface Cohort {
  readonly example: SelectingDevice;
  readonly devices: Set<DeviceId>;
  /** Those in effect; unknown where one of them is not in the organization, undefined where that was not looked up since something changed. */
  groups: readonly GroupState[] | 'unknown' | undefined;
  /** By which the cohort is found when one of these groups changes. */
  held: readonly GroupId[];
}

/** What a change may have made other than it was. */
export interface Affected {
  /** Whose policy may be another one. To be walked through before the next change. */
  readonly devices: Iterable<DeviceId>;
  /** The peers that mean other addresses, by their keys. */
  readonly peers: readonly string[];
  /** Whether an isolated device allows other addresses. */
  readonly isAllowedOther: boolean;
}

/** Equal where the same devices have the same state of the group. */
function applicationOf(group: OrganizationGroup | undefined): string {
  if (group === undefined) return '';
  const { appliesTo = [], mode, guardrail, trial } = group.selectable;
  const { scope, before } = trial ?? {};
  return JSON.stringify([
    appliesTo,
    mode,
    guardrail,
    group.isDefault,
    trial && [scope, before?.appliesTo, before?.mode],
  ]);
}

/** The peers that the rules name, including those from before a trial. */
function peersOf({ rules, trial }: GroupState): ReadonlyMap<string, Peer> {
  const before = trial?.before;
  return before ? new Map([...before.rules.peers, ...rules.peers]) : rules.peers;
}

export class AffectedDevices {
  /** Without its devices. */
  #organization: Organization;
  #inEffect: GroupsInEffect;
  readonly #cohorts = new Map<string, Cohort>();
  readonly #holders = new Map<GroupId, Set<Cohort>>();
  /** Of the groups that some device has or had: the rules of others decide nothing, and may name thousands of peers. */
  readonly #peers = new NamedPeers();
  readonly #read = new Set<GroupId>();
  readonly #unread = new Set<GroupId>();
  readonly #isolated = new Map<DeviceId, DeviceIdentity>();
  /** Those whose isolation is not understood: nobody knows what any device must refuse. */
  readonly #unclear = new Set<DeviceId>();
  /** What isolated devices mean for each device, as far as it was asked since they last changed. */
  #isolations: Isolations | undefined;

  /** The groups of the organization. The devices are still to be set. */
  constructor(organization: Organization) {
    this.#organization = { ...organization, devices: emptyOrganization.devices };
    this.#inEffect = new GroupsInEffect(this.#organization);
  }

  group(id: GroupId): OrganizationGroup | undefined {
    return this.#organization.groups.get(id);
  }

  /** After the groups of devices were looked up, and before the next change: reads the rules of those that no device had before. One group may take long. */
  *readRules(): Generator<void> {
    for (const id of this.#unread) {
      const group = this.group(id);
      if (group !== undefined) {
        this.#read.add(id);
        this.#peers.set(id, peersOf(group.selectable));
      }
      this.#unread.delete(id);
      yield;
    }
  }

  /** Whether a rule of some group that a device has or had names the peer with this key. */
  isNamed(key: string): boolean {
    return this.#peers.has(key);
  }

  /** Whether some device may have a group, or refuse another device, by what other records say. */
  get isAnyByOthers(): boolean {
    const groups = [...this.#organization.groups.values()];
    return this.#isolated.size + this.#unclear.size > 0 || groups.some(({ selectable }) => mayApplyByLabel(selectable));
  }

  /** The groups in effect on a device that was set, guardrails last; undefined where its policy is not known. */
  groupsOn(device: OrganizationDevice): readonly GroupState[] | undefined {
    if (this.#unclear.size > 0) return undefined;
    const cohort = this.#cohorts.get(cohortOf(device));
    if (cohort === undefined) return undefined;
    const groups = cohort.groups ?? this.#lookUp(cohort);
    return groups === 'unknown' ? undefined : groups;
  }

  /** The isolation that concerns the device. */
  isolationOn({ identity }: OrganizationDevice): PolicyIsolation | undefined {
    return (this.#isolations ??= new Isolations([...this.#isolated.values()])).of(identity);
  }

  setGroup(id: GroupId, group: OrganizationGroup | undefined): Affected {
    const old = this.group(id);
    this.#organization = overlay(this.#organization, [{ kind: 'group', id, group }]);
    this.#inEffect = new GroupsInEffect(this.#organization);
    if (this.#read.has(id)) this.#peers.set(id, group === undefined ? new Map() : peersOf(group.selectable));
    if (group === undefined) this.#read.delete(id);
    const isSame = applicationOf(old) === applicationOf(group);
    const cohorts = [...(isSame ? (this.#holders.get(id) ?? []) : this.#cohorts.values())];
    for (const cohort of cohorts) cohort.groups = undefined;
    return { devices: devicesIn(cohorts), peers: [], isAllowedOther: false };
  }

  /** A device in its new state; absent where it is not there. */
  setDevice(
    id: DeviceId,
    { from, to }: { readonly from?: OrganizationDevice | undefined; readonly to?: OrganizationDevice | undefined },
  ): Affected {
    if (from === undefined || to === undefined || cohortOf(from) !== cohortOf(to)) {
      if (from !== undefined) this.#leave(from);
      if (to !== undefined) this.#join(to);
    }
    const [was, is] = [from?.identity, to?.identity];
    const [old, isolation] = [isolationOf(from), isolationOf(to)];
    const isIsolation = old !== undefined || isolation !== undefined;
    if (isIsolation) {
      this.#isolated.delete(id);
      this.#unclear.delete(id);
      if (isolation === 'unclear') this.#unclear.add(id);
      else if (isolation !== undefined && is !== undefined) this.#isolated.set(id, is);
      this.#isolations = undefined;
    }
    const peers = this.#peers.changedBy(was, is);
    const isAllowedOther = [...this.#isolated.values()].some(({ isolated }) =>
      isolated?.allow.some((peer) => isOtherPeer(peer, was, is)),
    );
    // Every device refuses those that are isolated.
    if (isIsolation) return { devices: devicesIn(this.#cohorts.values()), peers, isAllowedOther };
    const naming = peers.flatMap((key) => [...this.#peers.namedBy(key)]);
    const cohorts = new Set(naming.flatMap((group) => [...(this.#holders.get(group) ?? [])]));
    const allowing = isAllowedOther ? this.#isolated.keys() : [];
    const own = to === undefined ? [] : [id];
    return { devices: new Set([...own, ...devicesIn(cohorts), ...allowing]), peers, isAllowedOther };
  }

  #join(device: OrganizationDevice): void {
    const key = cohortOf(device);
    let cohort = this.#cohorts.get(key);
    if (cohort === undefined) {
      const example = { list: listFor(selecting(device)), labels: device.identity.labels };
      cohort = { example, devices: new Set(), groups: undefined, held: [] };
      this.#cohorts.set(key, cohort);
    }
    cohort.devices.add(device.id);
  }

  #leave(device: OrganizationDevice): void {
    const key = cohortOf(device);
    const cohort = this.#cohorts.get(key);
    cohort?.devices.delete(device.id);
    if (cohort?.devices.size !== 0) return;
    this.#hold(cohort, []);
    this.#cohorts.delete(key);
  }

  #lookUp(cohort: Cohort): readonly GroupState[] | 'unknown' {
    const { groups, forbid, require } = this.#inEffect.selectionIn(cohort.example, 'now');
    const known = groups.flatMap(({ group }) => group ?? []);
    const states = [...known, ...forbid, ...require];
    this.#hold(
      cohort,
      [...groups, ...forbid, ...require].map(({ id }) => id),
    );
    return (cohort.groups = known.length === 0 || known.length < groups.length ? 'unknown' : states);
  }

  #hold(cohort: Cohort, ids: readonly GroupId[]): void {
    for (const id of cohort.held) {
      if (ids.includes(id)) continue;
      const holders = this.#holders.get(id);
      holders?.delete(cohort);
      if (holders?.size === 0) this.#holders.delete(id);
    }
    for (const id of ids) {
      this.#holders.set(id, (this.#holders.get(id) ?? new Set()).add(cohort));
      if (!this.#read.has(id)) this.#unread.add(id);
    }
    cohort.held = ids;
  }
}

function* devicesIn(cohorts: Iterable<Cohort>): Generator<DeviceId> {
  for (const { devices } of cohorts) yield* devices;
}
