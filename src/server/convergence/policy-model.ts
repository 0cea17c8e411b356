/** Owns the model of each device's effective policy and the revision of its last change, built by following one organization's log. */
import type { Address } from '../../policy/address.ts';
import { deviceIdentity, type DeviceIdentity, type IdentityRecord } from '../../policy/fleet/identity.ts';
import { mayApplyByLabel, selectGroups } from '../../policy/effective.ts';
import { isNamed } from '../../policy/fleet/selector.ts';
import { isolationKey } from '../../policy/isolation/isolation.ts';
import { Isolations } from '../../policy/isolation/isolations.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import { parseDeviceId, parseGroupId, type DeviceId, type GroupId } from '../../policy/ids.ts';
import { isObject } from '../../policy/json.ts';
import { deviceFor, type OnTrial } from '../../policy/trial/trial.ts';
import type { Peer } from '../../policy/rule.ts';
import type { Entry } from '../store/contract/change-log.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import { ConfirmedTrials } from './confirmed-trials.ts';
import { applicationOf, groupContent, isConfirmed, namedBy, type GroupContent } from './group-content.ts';
import { PolicyChangeLists, noPolicyChanges } from './policy-change-lists.ts';
import type { TimedPolicy } from './phases.ts';
import { momentsOf, timedRevision } from './policy-moments.ts';
import type { PolicyChange } from './verdict.ts';

export interface ModelDevice {
  readonly id: DeviceId;
  readonly hostname: string;
  readonly list: readonly GroupId[];
  /** The list that is being tried, also where the device is not among those that try it. */
  readonly tried?: readonly GroupId[] | undefined;
  readonly identity: DeviceIdentity;
  /** The key for which groups are in effect: devices with the same key share their policy. */
  readonly cohort: string;
  readonly revision: number;
  /** Ascending; the earliest are forgotten. */
  readonly policyChanges: readonly PolicyChange[];
}

/** The groups in effect on a device, guardrails last. */
export type Effect = readonly GroupContent[];

interface NamedPeer {
  readonly peer: Peer;
  /** Those that name it. */
  readonly groups: Set<GroupId>;
}

const firstLabel = (peer: Peer): string | undefined => ('labels' in peer ? peer.labels[0] : undefined);

/** Each list has no doubles. */
const sameAddresses = (a: readonly Address[], b: readonly Address[]): boolean =>
  a.length === b.length &&
  a.every(({ family, value }) => b.some((one) => one.family === family && one.value === value));

/** The device's addresses, where the peer names it. */
const addressesIf = (peer: Peer, device: DeviceIdentity | undefined): readonly Address[] =>
  device !== undefined && isNamed(peer, device) ? device.addresses : [];

/** The policy of all devices of a cohort. */
export interface CohortPolicy extends TimedPolicy {
  readonly effect: Effect | undefined;
  /** The isolation that concerns them. */
  readonly isolation?: PolicyIsolation | undefined;
  /** Identifies this combination of groups in effect and devices that they name. */
  readonly key: string;
}

type DeviceOnTrial = OnTrial & {
  readonly labels?: readonly string[];
  readonly security_groups?: unknown;
};

const listOf = (value: unknown): readonly GroupId[] => (Array.isArray(value) ? value.map(parseGroupId) : []);

function parsed(json: string): Readonly<Record<string, unknown>> {
  const record: unknown = JSON.parse(json);
  return isObject(record) ? record : {};
}

const nothing: Effect = [];

/**
 * While the model follows the log, policy changes are exact. For a device that was loaded from the current state, the
 * first policy change is the latest change that may have affected it. It may be too late but never too early, so that
 * no device counts as in force without proof.
 *
 * The model applies an entry that affects many devices in time slices. `head` moves when the entry is complete, so that
 * answers about a revision up to the head stay correct in between. `version` moves before anything else.
 */
export class PolicyModel {
  readonly devices = new Map<DeviceId, ModelDevice>();
  readonly confirmed = new ConfirmedTrials();
  readonly #groups = new Map<GroupId, GroupContent>();
  /** Those that apply by label. */
  readonly #byLabel = new Map<GroupId, GroupContent>();
  readonly #slices: TimeSlices;
  /** Which devices each group is in effect on, and what is in effect on each of them. */
  readonly #holders = new Map<GroupId, Set<DeviceId>>();
  readonly #held = new Map<DeviceId, Effect>();
  /** The peers that groups name, by their keys. */
  readonly #named = new Map<string, NamedPeer>();
  /** The keys of those that ask for labels, by the first of these, which a device must have to be named. */
  readonly #namedByLabel = new Map<string, Set<string>>();
  /** When the devices that a peer names last changed, by the peer's key. */
  readonly #peersChangedAt = new Map<string, number>();
  /** The devices that are isolated, and when that last changed. */
  readonly #isolated = new Map<DeviceId, DeviceIdentity>();
  readonly #isolatedAt = new Map<DeviceId, number>();
  /** What they mean for each device; undefined since they last changed. */
  #isolations: Isolations | undefined;
  /** When the devices that any of them allows last changed. */
  #allowedChangedAt = 0;
  /** By cohort, as far as it was needed since the last change. */
  readonly #policies = new Map<string, CohortPolicy>();
  readonly #policyChangeLists = new PolicyChangeLists();
  #default: GroupId | undefined;
  #loaded = false;
  /** In the order of their ids, as far as that was asked for since one came or left. */
  #ids: readonly DeviceId[] | undefined;
  /** Up to which revision the log has been followed. */
  head = 0;
  /** Another whenever something may have changed, also while an entry is being taken in; no two models have the same. */
  version: object = {};

  constructor(slices: TimeSlices) {
    this.#slices = slices;
  }

  /** Every device, in the order of the ids. */
  get ids(): readonly DeviceId[] {
    return (this.#ids ??= [...this.devices.keys()].toSorted());
  }

  /** Adds a current record, before the model follows the log. */
  async load(entry: Entry): Promise<void> {
    await this.#take(entry);
  }

  /** Everything is loaded; from this revision on the log is followed. */
  async finish(head: number): Promise<void> {
    this.head = head;
    this.#loaded = true;
    await this.#slices.each(this.devices.keys(), (id) => this.#refresh(id, 0));
  }

  /** One entry of the log, in order: one after the other. */
  async apply(entry: Entry): Promise<void> {
    this.version = {};
    await this.#take(entry);
    this.head = entry.revision;
  }

  /** The policy in effect on the device now; undefined when a group of its list is unknown. */
  effectOn(device: ModelDevice): Effect | undefined {
    return this.policyOf(device).effect;
  }

  /** Whether the device's policy changed after `since`, up to `upTo`. What is not remembered counts as a change. */
  hasChanged(id: DeviceId, since: number, upTo: number): boolean {
    const changes = this.devices.get(id)?.policyChanges ?? noPolicyChanges;
    const first = changes[0]?.revision ?? 0;
    return changes.some(({ revision }) => revision > since && revision <= upTo) || (first > upTo && upTo > since);
  }

  policyOf(device: ModelDevice): CohortPolicy {
    const isolation = (this.#isolations ??= new Isolations([...this.#isolated.values()])).of(device.identity);
    // Devices of a cohort may be isolated themselves, or be allowed by isolated ones.
    const isolationText = isolation === undefined ? '' : isolationKey(isolation);
    const cohort = `${device.cohort}${this.confirmed.newest([device.id]) || ''}${isolationText}`;
    const known = this.#policies.get(cohort);
    if (known !== undefined) return known;
    const effect = this.#select(device);
    const groups = effect ?? nothing;
    const moments = momentsOf(groups, isolation);
    const confirmedAt = this.confirmed.newest([device.id, ...groups.map(({ id }) => id)]);
    const isolations = isolation === undefined ? [] : this.#isolatedAt.values();
    const timedAt = Math.max(confirmedAt, timedRevision(groups, isolations));
    const ownKey = this.#keyOf(effect, isolation, isolationText);
    const policy = {
      effect,
      isolation,
      key: confirmedAt === 0 ? ownKey : `${ownKey}\nconfirmed@${confirmedAt}`,
      ...(moments.length > 0 && { moments }),
      ...(timedAt > 0 && { timedAt }),
    };
    this.#policies.set(cohort, policy);
    return policy;
  }

  #select({ list, identity: { labels } }: ModelDevice): Effect | undefined {
    const find = (id: GroupId): GroupContent | undefined => this.#groups.get(id);
    const defaultGroup = this.#default === undefined ? undefined : find(this.#default);
    const { groups, forbid, require } = selectGroups(
      { list, labels },
      { find, defaultGroup, byLabel: this.#byLabel.values() },
    );
    const deciding = groups.flatMap(({ group }) => group ?? []);
    return deciding.length < groups.length ? undefined : [...deciding, ...forbid, ...require];
  }

  async #take(entry: Entry): Promise<void> {
    if (entry.kind === 'device') await this.#takeDevice(entry);
    else if (entry.kind === 'security-groups') await this.#takeGroup(entry);
  }

  async #takeDevice({ type, id: text, revision, json }: Entry): Promise<void> {
    const id = parseDeviceId(text);
    const old = this.devices.get(id);
    if (old !== undefined && old.revision >= revision) return;
    if ((old === undefined) !== (type === 'delete')) this.#ids = undefined;
    if (type === 'delete') {
      this.confirmed.delete(id);
      this.devices.delete(id);
      this.#hold(id, []);
      this.#held.delete(id);
      await this.#peersChanged(old?.identity, undefined, revision);
      this.#isolatedAt.delete(id);
      this.#isolations = undefined;
      if (this.#isolated.delete(id)) await this.#refreshAll(revision);
      return;
    }
    const record = parsed(json);
    const list = listOf(deviceFor(record as DeviceOnTrial)['security_groups']);
    const tried = record['trial'] === undefined ? undefined : listOf(record['security_groups']);
    if (old?.tried !== undefined && tried === undefined && String(old.tried) === String(list))
      this.confirmed.add(id, revision);
    const hostname = typeof record['hostname'] === 'string' ? record['hostname'] : '';
    const identity = deviceIdentity(record as unknown as IdentityRecord);
    const cohort = JSON.stringify([list, identity.labels]);
    this.devices.set(id, {
      id,
      hostname,
      list,
      tried,
      identity,
      cohort,
      revision,
      policyChanges: old?.policyChanges ?? noPolicyChanges,
    });
    const wasIsolated = this.#isolated.delete(id);
    if (wasIsolated || identity.isolated !== undefined) this.#isolations = undefined;
    if (identity.isolated === undefined) this.#isolatedAt.delete(id);
    else {
      this.#isolated.set(id, identity);
      if (old?.identity.isolated?.until !== identity.isolated.until || !wasIsolated) this.#isolatedAt.set(id, revision);
    }
    if (!this.#loaded) return;
    if (wasIsolated || identity.isolated !== undefined) await this.#refreshAll(revision);
    else this.#refresh(id, revision);
    await this.#peersChanged(old?.identity, identity, revision);
  }

  /** Every device refuses those that are isolated. */
  async #refreshAll(revision: number): Promise<void> {
    this.#policies.clear();
    await this.#slices.each(this.devices.keys(), (device) => this.#refresh(device, revision));
  }

  async #takeGroup({ type, id: text, revision, json, hidden_from }: Entry): Promise<void> {
    // It left somebody's view, and is what it was.
    if (hidden_from !== undefined) return;
    const id = parseGroupId(text);
    const old = this.#groups.get(id);
    if (old !== undefined && old.revision >= revision) return;
    const group = type === 'delete' ? undefined : groupContent(id, parsed(json), revision, old);
    const otherwise = applicationOf(old) !== applicationOf(group);
    const isOther = group?.isDefault === true && this.#default !== id;
    if (isConfirmed(old, group)) this.confirmed.add(id, revision);
    else if (group === undefined) this.confirmed.delete(id);
    this.#put(id, group);
    if (!this.#loaded) return;
    const holders = otherwise || isOther ? this.devices.keys() : (this.#holders.get(id) ?? []);
    await this.#slices.each(holders, (device) => this.#refresh(device, revision));
    if (group === undefined) this.#holders.delete(id);
  }

  #put(id: GroupId, group: GroupContent | undefined): void {
    this.#policies.clear();
    this.#name(id, namedBy(group));
    if (group === undefined) {
      this.#groups.delete(id);
      this.#byLabel.delete(id);
      if (this.#default === id) this.#default = undefined;
      return;
    }
    this.#groups.set(id, group);
    if (mayApplyByLabel(group)) this.#byLabel.set(id, group);
    else this.#byLabel.delete(id);
    if (group.isDefault) this.#default = id;
  }

  /** The group names these peers from now on. */
  #name(id: GroupId, peers: GroupContent['peers']): void {
    for (const [key, peer] of namedBy(this.#groups.get(id))) {
      const groups = this.#named.get(key)?.groups;
      groups?.delete(id);
      if (groups === undefined || groups.size > 0) continue;
      this.#named.delete(key);
      this.#peersChangedAt.delete(key);
      const first = firstLabel(peer);
      if (first !== undefined) this.#namedByLabel.get(first)?.delete(key);
    }
    for (const [key, peer] of peers) {
      const named = this.#named.get(key) ?? { peer, groups: new Set() };
      this.#named.set(key, named);
      named.groups.add(id);
      const first = firstLabel(peer);
      if (first === undefined) continue;
      this.#namedByLabel.set(first, (this.#namedByLabel.get(first) ?? new Set()).add(key));
    }
  }

  /** The peers whose addresses change with this device. The result may contain peers for which another device has the same addresses. */
  #changedPeers(before: DeviceIdentity | undefined, after: DeviceIdentity | undefined): readonly string[] {
    const keys = new Set<string>();
    for (const device of [before, after]) {
      if (device === undefined) continue;
      for (const key of ['all', `device ${device.id}`]) if (this.#named.has(key)) keys.add(key);
      for (const label of device.labels) for (const key of this.#namedByLabel.get(label) ?? []) keys.add(key);
    }
    return [...keys].filter((key) => {
      const { peer } = this.#named.get(key) ?? {};
      return peer !== undefined && !sameAddresses(addressesIf(peer, before), addressesIf(peer, after));
    });
  }

  /** Whether the change of a device affects the allow list of an isolated device. */
  #isAllowedChanged(before: DeviceIdentity | undefined, after: DeviceIdentity | undefined): boolean {
    return [...this.#isolated.values()].some(({ isolated }) =>
      isolated?.allow.some((peer) => !sameAddresses(addressesIf(peer, before), addressesIf(peer, after))),
    );
  }

  async #peersChanged(
    before: DeviceIdentity | undefined,
    after: DeviceIdentity | undefined,
    revision: number,
  ): Promise<void> {
    if (this.#isolated.size > 0 && this.#isAllowedChanged(before, after)) {
      this.#allowedChangedAt = revision;
      this.#policies.clear();
      for (const id of this.#isolated.keys()) this.#refresh(id, revision);
    }
    const keys = this.#changedPeers(before, after);
    if (keys.length === 0) return;
    for (const key of keys) this.#peersChangedAt.set(key, revision);
    this.#policies.clear();
    const groups = new Set(keys.flatMap((key) => [...(this.#named.get(key)?.groups ?? [])]));
    const devices = new Set([...groups].flatMap((id) => [...(this.#holders.get(id) ?? [])]));
    await this.#slices.each(devices, (device) => this.#refresh(device, revision));
  }

  #hold(device: DeviceId, effect: Effect): void {
    const before = this.#held.get(device) ?? [];
    if (before === effect) return;
    this.#held.set(device, effect);
    if (before.length === effect.length && before.every(({ id }, index) => id === effect[index]?.id)) return;
    for (const { id } of before) this.#holders.get(id)?.delete(device);
    for (const { id } of effect) {
      const holders = this.#holders.get(id) ?? new Set();
      this.#holders.set(id, holders.add(device));
    }
  }

  #keyOf(effect: Effect | undefined, isolation: PolicyIsolation | undefined, isolationText: string): string {
    if (effect === undefined) return '?';
    const groups = effect.map(
      ({ id, changedAt, hash, guardrail }) => `${id}@${changedAt}${hash.slice(0, 8)}${guardrail ?? ''}`,
    );
    const peers = new Set(effect.flatMap((group) => [...group.peers.keys()]));
    const own = isolation?.own === undefined ? [] : [`allowed@${this.#allowedChangedAt}`];
    return [
      ...groups,
      ...[...peers].map((key) => `${key}@${this.#peersChangedAt.get(key) ?? 0}`),
      ...(isolation === undefined ? [] : [isolationText, ...own]),
    ].join('\n');
  }

  /** The latest revision at which what is in effect may have changed before the log was followed. */
  #latest(device: ModelDevice, effect: Effect | undefined): number {
    // What selects, and whom rules name, may have changed without a trace in what is there now.
    const isOpen =
      effect === undefined ||
      this.#byLabel.size > 0 ||
      this.#isolated.size > 0 ||
      // A group that became watch only left the effect without a trace.
      device.list.some((id) => this.#groups.get(id)?.mode === 'observe') ||
      effect.some(({ peers }) => peers.size > 0);
    return Math.max(device.revision, ...(effect ?? []).map(({ changedAt }) => changedAt), isOpen ? this.head : 0);
  }

  #refresh(id: DeviceId, revision: number): void {
    const device = this.devices.get(id);
    if (device === undefined) return;
    const { effect, key, moments, timedAt } = this.policyOf(device);
    this.#hold(id, effect ?? nothing);
    if (device.policyChanges.at(-1)?.key === key) return;
    // One that came while the log was followed was touched then, and not before.
    const timed = { key, ...(moments && { moments }), ...(timedAt !== undefined && { timedAt }) };
    const policyChange =
      revision > 0 ? { ...timed, revision } : { ...timed, revision: this.#latest(device, effect), atLatest: true };
    const policyChanges = this.#policyChangeLists.after(device.policyChanges, policyChange);
    const { hostname, list, tried, identity, cohort } = device;
    this.devices.set(id, { id, hostname, list, tried, identity, cohort, revision: device.revision, policyChanges });
  }
}
