/** Owns what each device's effective policy is made of, and at which revision that last changed: the log of one organization, followed. */
import { Fleet, type PeerChange } from '../../policy/fleet/fleet.ts';
import { deviceIdentity, type DeviceIdentity, type IdentityRecord } from '../../policy/fleet/identity.ts';
import { matchesAny, peerKey } from '../../policy/fleet/selector.ts';
import { parseDeviceId, parseGroupId, type DeviceId, type GroupId } from '../../policy/ids.ts';
import { isObject } from '../../policy/json.ts';
import type { Entry } from '../store/contract/change-log.ts';
import { groupContent, type GroupContent } from './group-content.ts';
import type { Touch } from './verdict.ts';

export interface ModelDevice {
  readonly id: DeviceId;
  readonly hostname: string;
  readonly list: readonly GroupId[];
  readonly identity: DeviceIdentity;
  /** What decides which groups are in effect: devices that share it share their policy. */
  readonly cohort: string;
  readonly revision: number;
  /** Ascending; the earliest are forgotten. */
  readonly touches: readonly Touch[];
}

/** The groups in effect on a device, guardrails last. */
export type Effect = readonly GroupContent[];

interface CohortPolicy {
  readonly effect: Effect | undefined;
  /** Tells this state of what is in effect, and of whom it names, from every other. */
  readonly key: string;
}

/** Changes that are remembered of each device: enough for whoever waits for one that others have followed. */
const mostTouches = 8;

const listOf = (value: unknown): readonly GroupId[] => (Array.isArray(value) ? value.map(parseGroupId) : []);

function parsed(json: string): Readonly<Record<string, unknown>> {
  const record: unknown = JSON.parse(json);
  return isObject(record) ? record : {};
}

const byId = (a: GroupContent, b: GroupContent): number => (a.id < b.id ? -1 : 1);

/**
 * While the log is followed, a touch is exact. Of a device that was loaded as it stands, the first touch is the latest change that
 * may have touched it: late rather than early, so that nobody counts as in force who may not be.
 */
export class PolicyModel {
  readonly devices = new Map<DeviceId, ModelDevice>();
  readonly fleet = new Fleet();
  readonly #groups = new Map<GroupId, GroupContent>();
  /** Those that apply by label. */
  readonly #byLabel = new Map<GroupId, GroupContent>();
  /** Which devices each group is in effect on. */
  readonly #holders = new Map<GroupId, Set<DeviceId>>();
  /** When whom a peer names last changed, by its key. */
  readonly #peersChangedAt = new Map<string, number>();
  /** Of each cohort, as far as it was asked for since something last changed. */
  readonly #policies = new Map<string, CohortPolicy>();
  #default: GroupId | undefined;
  #loaded = false;
  /** Up to which revision the log has been followed. */
  head = 0;

  /** Takes in a record as it stands, before the log is followed. */
  load(entry: Entry): void {
    this.#take(entry);
  }

  /** Everything is loaded; from this revision on the log is followed. */
  finish(head: number): void {
    this.head = head;
    for (const { identity } of this.devices.values()) this.fleet.set(identity);
    for (const group of this.#groups.values()) this.#followPeers(group);
    this.#loaded = true;
    for (const id of this.devices.keys()) this.#refresh(id, 0);
  }

  /** One entry of the log, in order. */
  apply(entry: Entry): void {
    this.#take(entry);
    this.head = entry.revision;
  }

  /** What is in effect on the device now; undefined where a group of its list is not known. */
  effectOn(device: ModelDevice): Effect | undefined {
    return this.#policyOf(device).effect;
  }

  #policyOf(device: ModelDevice): CohortPolicy {
    const known = this.#policies.get(device.cohort);
    if (known !== undefined) return known;
    const effect = this.#select(device);
    const policy = { effect, key: this.#keyOf(effect) };
    this.#policies.set(device.cohort, policy);
    return policy;
  }

  #select({ list, identity }: ModelDevice): Effect | undefined {
    const applying = [...this.#byLabel.values()]
      .filter(({ appliesTo }) => matchesAny(appliesTo, identity.labels))
      .toSorted(byId);
    const further = applying.filter(({ id, guardrail }) => guardrail === undefined && !list.includes(id));
    const ids = list.length + further.length > 0 ? list : this.#default === undefined ? [] : [this.#default];
    const listed = ids.map((id) => this.#groups.get(id));
    const guardrails = applying.filter(({ guardrail }) => guardrail !== undefined);
    const all = [...listed, ...further, ...guardrails];
    return all.every((group) => group !== undefined) ? all : undefined;
  }

  #take(entry: Entry): void {
    if (entry.kind === 'device') this.#takeDevice(entry);
    else if (entry.kind === 'security-groups') this.#takeGroup(entry);
  }

  #takeDevice({ type, id: text, revision, json }: Entry): void {
    const id = parseDeviceId(text);
    const old = this.devices.get(id);
    if (old !== undefined && old.revision >= revision) return;
    if (type === 'delete') {
      if (old !== undefined) this.#hold(id, [], this.effectOn(old) ?? []);
      this.devices.delete(id);
      this.#peersChanged(this.fleet.delete(id), revision);
      return;
    }
    const record = parsed(json);
    const list = listOf(record['security_groups']);
    const hostname = typeof record['hostname'] === 'string' ? record['hostname'] : '';
    const identity = deviceIdentity(record as unknown as IdentityRecord);
    const before = old === undefined ? undefined : this.effectOn(old);
    const cohort = JSON.stringify([list, identity.labels]);
    const device: ModelDevice = { id, hostname, list, identity, cohort, revision, touches: old?.touches ?? [] };
    this.devices.set(id, device);
    if (!this.#loaded) return;
    this.#hold(id, this.effectOn(device) ?? [], before ?? []);
    this.#refresh(id, revision);
    this.#peersChanged(this.fleet.set(identity), revision);
  }

  #takeGroup({ type, id: text, revision, json, hidden_from }: Entry): void {
    // It left somebody's view, and is what it was.
    if (hidden_from !== undefined) return;
    const id = parseGroupId(text);
    const old = this.#groups.get(id);
    if (old !== undefined && old.revision >= revision) return;
    const group = type === 'delete' ? undefined : groupContent(id, parsed(json), revision, old);
    const otherwise = JSON.stringify(old?.appliesTo ?? []) !== JSON.stringify(group?.appliesTo ?? []);
    const isOther = group?.isDefault === true && this.#default !== id;
    const holders = otherwise || isOther ? [...this.devices.keys()] : [...(this.#holders.get(id) ?? [])];
    // Other rules leave a group where it is in effect.
    const moves = otherwise || isOther || old === undefined || group === undefined;
    const before = new Map(
      moves && this.#loaded ? holders.map((device) => [device, this.#effectOf(device)] as const) : [],
    );
    this.#put(id, group);
    if (!this.#loaded) return;
    if (group !== undefined) this.#followPeers(group);
    for (const [device, effect] of before) this.#hold(device, this.#effectOf(device) ?? [], effect ?? []);
    for (const device of holders) this.#refresh(device, revision);
  }

  #put(id: GroupId, group: GroupContent | undefined): void {
    this.#policies.clear();
    if (group === undefined) {
      this.#groups.delete(id);
      this.#byLabel.delete(id);
      if (this.#default === id) this.#default = undefined;
      return;
    }
    this.#groups.set(id, group);
    if (group.appliesTo.length > 0) this.#byLabel.set(id, group);
    else this.#byLabel.delete(id);
    if (group.isDefault) this.#default = id;
  }

  #effectOf(id: DeviceId): Effect | undefined {
    const device = this.devices.get(id);
    return device && this.effectOn(device);
  }

  /** From the first time a peer is asked for, the fleet tells of its changes. */
  #followPeers({ peers }: GroupContent): void {
    for (const peer of peers.values()) this.fleet.addressesOf(peer);
  }

  #peersChanged(changes: readonly PeerChange[], revision: number): void {
    if (changes.length === 0) return;
    const keys = new Set(changes.map(({ peer }) => peerKey(peer)));
    for (const key of keys) this.#peersChangedAt.set(key, revision);
    this.#policies.clear();
    const groups = [...this.#groups.values()].filter(({ peers }) => [...peers.keys()].some((key) => keys.has(key)));
    const devices = new Set(groups.flatMap(({ id }) => [...(this.#holders.get(id) ?? [])]));
    for (const device of devices) this.#refresh(device, revision);
  }

  #hold(device: DeviceId, groups: Effect, before: Effect): void {
    for (const { id } of before) this.#holders.get(id)?.delete(device);
    for (const { id } of groups) {
      const holders = this.#holders.get(id) ?? new Set();
      this.#holders.set(id, holders.add(device));
    }
  }

  #keyOf(effect: Effect | undefined): string {
    if (effect === undefined) return '?';
    const groups = effect.map(({ id, changedAt, guardrail }) => `${id}@${changedAt}${guardrail ?? ''}`);
    const peers = new Set(effect.flatMap((group) => [...group.peers.keys()]));
    return [...groups, ...[...peers].map((key) => `${key}@${this.#peersChangedAt.get(key) ?? 0}`)].join('\n');
  }

  /** The latest revision at which what is in effect may have changed before the log was followed. */
  #latest(device: ModelDevice, effect: Effect | undefined): number {
    // What selects, and whom rules name, may have changed without a trace in what is there now.
    const isOpen = effect === undefined || this.#byLabel.size > 0 || effect.some(({ peers }) => peers.size > 0);
    return Math.max(device.revision, ...(effect ?? []).map(({ changedAt }) => changedAt), isOpen ? this.head : 0);
  }

  #refresh(id: DeviceId, revision: number): void {
    const device = this.devices.get(id);
    if (device === undefined) return;
    const { effect, key } = this.#policyOf(device);
    const isFirst = device.touches.length === 0;
    if (isFirst) this.#hold(id, effect ?? [], []);
    if (device.touches.at(-1)?.key === key) return;
    // One that came while the log was followed was touched then, and not before.
    const touch = revision > 0 ? { key, revision } : { key, revision: this.#latest(device, effect), atLatest: true };
    this.devices.set(id, { ...device, touches: [...device.touches, touch].slice(-mostTouches) });
  }
}
