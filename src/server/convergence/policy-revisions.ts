/** Owns the revisions at which the policy of each device changed, for who follows one organization. What a change touches is worked out in `organization`. */
import { AffectedDevices, type Affected } from '../../organization/affected-devices.ts';
import { cohortOf } from '../../organization/groups-in-effect.ts';
import { isGroupKept, isListKept } from '../../organization/kept-trials.ts';
import type {
  GroupState,
  Organization,
  OrganizationChange,
  OrganizationDevice,
  OrganizationGroup,
} from '../../organization/organization.ts';
import { isolationOf } from '../../organization/unclear-isolation.ts';
import type { DeviceIdentity } from '../../policy/fleet/identity.ts';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { isolationKey } from '../../policy/isolation/isolation.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { FollowedOrganization } from '../store/model/organizations.ts';
import { ConfirmedTrials } from './confirmed-trials.ts';
import type { TimedPolicy } from './phases.ts';
import { PolicyChangeLists, noPolicyChanges } from './policy-change-lists.ts';
import type { PolicyChange } from './verdict.ts';

export interface EnforcedDevice {
  readonly id: DeviceId;
  readonly hostname: string;
  readonly identity: DeviceIdentity;
  readonly record: OrganizationDevice;
  /** Ascending; the earliest are forgotten. */
  readonly policyChanges: readonly PolicyChange[];
}

/** What the policy of a device is made of. */
export interface DevicePolicyParts extends TimedPolicy {
  /** Guardrails last; undefined where one of them is not known. */
  readonly groups: readonly GroupState[] | undefined;
  /** The isolation that concerns the device. */
  readonly isolation: PolicyIsolation | undefined;
  /** Identifies this combination of groups in effect and devices that they name. */
  readonly key: string;
}

const noGroups: readonly GroupState[] = [];

/** When a device's policy may have changed. */
type ChangeMoment = (
  record: OrganizationDevice,
  groups: readonly GroupState[] | undefined,
) => Pick<PolicyChange, 'revision' | 'atLatest'>;

/** Since when a group has the rules of each of its states, as far as that was seen. The rules of a group that no device has are not looked at. */
class RulesSince {
  readonly #group: OrganizationGroup;
  readonly #revision: number;
  readonly #before: ReadonlyMap<string, number> | undefined;
  #byHash: ReadonlyMap<string, number> | undefined;

  constructor(group: OrganizationGroup, revision: number, before: RulesSince | undefined) {
    this.#group = group;
    this.#revision = revision;
    this.#before = before === undefined ? undefined : before.#byHash;
    // Whoever looked at the state before will ask again.
    if (this.#before !== undefined) this.#look();
  }

  of({ hash }: GroupState['rules']): number | undefined {
    return (this.#byHash ?? this.#look()).get(hash);
  }

  #look(): ReadonlyMap<string, number> {
    const { rules, trial } = this.#group.selectable;
    const states = trial?.before ? [rules, trial.before.rules] : [rules];
    return (this.#byHash = new Map(states.map(({ hash }) => [hash, this.#before?.get(hash) ?? this.#revision])));
  }
}

/** Ascending, each once, in milliseconds since the epoch. */
function momentsOf(groups: readonly GroupState[], isolation: PolicyIsolation | undefined): readonly number[] {
  const isolations = isolation === undefined ? [] : [...isolation.refused, ...(isolation.own ? [isolation.own] : [])];
  const ends = isolations.flatMap(({ until }) => until ?? []);
  return [...new Set([...groups.flatMap(({ rules }) => rules.moments), ...ends])].toSorted((a, b) => a - b);
}

/**
 * While the organization is followed, policy changes are exact. For a device that was loaded from the current state, the
 * first policy change is the latest change that may have affected it. It may be too late but never too early, so that
 * no device counts as in force without proof.
 *
 * A step that affects many devices is taken in by time slices. `head` moves when the step is complete, so that
 * answers about a revision up to the head stay correct in between.
 */
export class PolicyRevisions {
  readonly devices = new Map<DeviceId, EnforcedDevice>();
  readonly confirmed = new ConfirmedTrials();
  readonly #slices: TimeSlices;
  readonly #index: AffectedDevices;
  readonly #rulesSince = new Map<GroupId, RulesSince>();
  /** When the devices that a peer names last changed, by the peer's key. */
  readonly #peersChangedAt = new Map<string, number>();
  /** When the isolation of each isolated device last changed. */
  readonly #isolatedAt = new Map<DeviceId, number>();
  /** When the devices that any of them allows last changed. */
  #allowedChangedAt = 0;
  /** By what decides over them, as far as they were needed since the last step. */
  readonly #policies = new Map<string, DevicePolicyParts>();
  readonly #policyChangeLists = new PolicyChangeLists();
  #organization: Organization | undefined;
  /** In the order of their ids, as far as that was asked for since one came or left. */
  #ids: readonly DeviceId[] | undefined;
  /** Up to which revision every step was taken in. */
  head: number;

  /** Knows the groups; `load` takes in the devices. */
  constructor(organization: Organization, slices: TimeSlices) {
    this.#slices = slices;
    this.#index = new AffectedDevices(organization);
    this.#organization = organization;
    this.head = organization.revision;
  }

  /** Every device, in the order of the ids. */
  get ids(): readonly DeviceId[] {
    return (this.#ids ??= [...this.devices.keys()].toSorted());
  }

  /** What it is at the head: another object whenever something changed, and undefined while a step is being taken in. */
  get organization(): Organization | undefined {
    return this.#organization;
  }

  /** To be called once, after `confirmed` was filled. */
  async load({ groups, devices }: Organization): Promise<void> {
    await this.#slices.each(groups.values(), (group) => {
      this.#noteRules(group.id, group, group.revision ?? this.head);
    });
    await this.#slices.each(devices.values(), (record) => {
      const { id, hostname, identity } = record;
      this.#index.setDevice(id, { to: record });
      this.devices.set(id, { id, hostname, identity, record, policyChanges: noPolicyChanges });
      if (isolationOf(record) !== undefined) this.#isolatedAt.set(id, record.revision ?? this.head);
    });
    const isOpen = this.#index.isAnyByOthers;
    await this.#refreshAll(this.devices.keys(), (...of) => this.#latest(isOpen, ...of));
  }

  /** Takes in what happened since. False where that is not known. */
  async follow({ organization, steps }: FollowedOrganization): Promise<boolean> {
    if (steps === undefined) return false;
    if (steps.length > 0) this.#organization = undefined;
    for (const [index, { revision, change }] of steps.entries()) {
      if (index > 0) await this.#slices.next();
      await this.#take(change, revision);
      this.head = revision;
    }
    this.head = organization.revision;
    this.#organization ??= organization;
    return true;
  }

  /** The groups in effect now; undefined where one of them is not known. */
  groupsOn({ record }: EnforcedDevice): readonly GroupState[] | undefined {
    return this.#index.groupsOn(record);
  }

  isolationOn({ record }: EnforcedDevice): PolicyIsolation | undefined {
    return this.#index.isolationOn(record);
  }

  /** Whether the device's policy changed after `since`, up to `upTo`. What is not remembered counts as a change. */
  hasChanged(id: DeviceId, since: number, upTo: number): boolean {
    const changes = this.devices.get(id)?.policyChanges ?? noPolicyChanges;
    const first = changes[0]?.revision ?? 0;
    return changes.some(({ revision }) => revision > since && revision <= upTo) || (first > upTo && upTo > since);
  }

  policyOf(device: EnforcedDevice): DevicePolicyParts {
    const { id, record } = device;
    const isolation = this.isolationOn(device);
    // Devices with the same groups may be isolated themselves, or be allowed by isolated ones.
    const isolationText = isolation === undefined ? '' : isolationKey(isolation);
    const sharedBy = `${cohortOf(record)}|${this.confirmed.newest([id]) || ''}|${isolationText}`;
    const known = this.#policies.get(sharedBy);
    if (known !== undefined) return known;
    const groups = this.groupsOn(device);
    const moments = momentsOf(groups ?? noGroups, isolation);
    const confirmedAt = this.confirmed.newest([id, ...(groups ?? noGroups).map((group) => group.id)]);
    const timedAt = Math.max(confirmedAt, this.#timedSince(groups ?? noGroups, isolation));
    const ownKey = this.#keyOf(groups, isolation, isolationText);
    const policy = {
      groups,
      isolation,
      key: confirmedAt === 0 ? ownKey : `${ownKey}\nconfirmed@${confirmedAt}`,
      ...(moments.length > 0 && { moments }),
      ...(timedAt > 0 && { timedAt }),
    };
    this.#policies.set(sharedBy, policy);
    return policy;
  }

  async #take(change: OrganizationChange, revision: number): Promise<void> {
    const affected =
      change.kind === 'device'
        ? this.#takeDevice(change.id, change.device, revision)
        : this.#takeGroup(change.id, change.group, revision);
    this.#policies.clear();
    for (const key of affected.peers) this.#peersChangedAt.set(key, revision);
    if (affected.isAllowedOther) this.#allowedChangedAt = revision;
    await this.#refreshAll(affected.devices, () => ({ revision }));
  }

  #takeDevice(id: DeviceId, record: OrganizationDevice | undefined, revision: number): Affected {
    const old = this.devices.get(id);
    if ((old === undefined) !== (record === undefined)) this.#ids = undefined;
    const [was, is] = [isolationOf(old), isolationOf(record)];
    if (is === undefined) this.#isolatedAt.delete(id);
    else if (was === undefined || was === 'unclear' || is === 'unclear' || was.until !== is.until)
      this.#isolatedAt.set(id, revision);
    if (record === undefined) {
      this.confirmed.delete(id);
      this.devices.delete(id);
    } else {
      if (isListKept(old?.record, record)) this.confirmed.add(id, revision);
      const { hostname, identity } = record;
      this.devices.set(id, { id, hostname, identity, record, policyChanges: old?.policyChanges ?? noPolicyChanges });
    }
    return this.#index.setDevice(id, { from: old?.record, to: record });
  }

  #takeGroup(id: GroupId, group: OrganizationGroup | undefined, revision: number): Affected {
    if (isGroupKept(this.#index.group(id), group)) this.confirmed.add(id, revision);
    else if (group === undefined) this.confirmed.delete(id);
    this.#noteRules(id, group, revision);
    const affected = this.#index.setGroup(id, group);
    for (const key of this.#peersChangedAt.keys()) if (!this.#index.isNamed(key)) this.#peersChangedAt.delete(key);
    return affected;
  }

  #noteRules(id: GroupId, group: OrganizationGroup | undefined, revision: number): void {
    if (group === undefined) this.#rulesSince.delete(id);
    else this.#rulesSince.set(id, new RulesSince(group, revision, this.#rulesSince.get(id)));
  }

  #rulesChangedAt({ id, rules }: GroupState): number {
    return this.#rulesSince.get(id)?.of(rules) ?? this.head;
  }

  /** The newest revision of groups whose rules expire, and of isolations; 0 where there is neither. An isolation without an end counts: it may have had one. */
  #timedSince(groups: readonly GroupState[], isolation: PolicyIsolation | undefined): number {
    const expiring = groups.filter(({ rules }) => rules.moments.length > 0);
    const isolations = isolation === undefined ? [] : this.#isolatedAt.values();
    return Math.max(0, ...expiring.map((group) => this.#rulesChangedAt(group)), ...isolations);
  }

  #keyOf(
    groups: readonly GroupState[] | undefined,
    isolation: PolicyIsolation | undefined,
    isolationText: string,
  ): string {
    if (groups === undefined) return '?';
    const states = groups.map(
      (group) => `${group.id}@${this.#rulesChangedAt(group)}${group.rules.hash.slice(0, 8)}${group.guardrail ?? ''}`,
    );
    const peers = new Set(groups.flatMap(({ rules }) => [...rules.peers.keys()]));
    const own = isolation?.own === undefined ? [] : [`allowed@${this.#allowedChangedAt}`];
    return [
      ...states,
      ...[...peers].map((key) => `${key}@${this.#peersChangedAt.get(key) ?? 0}`),
      ...(isolation === undefined ? [] : [isolationText, ...own]),
    ].join('\n');
  }

  /** The latest revision at which the policy may have changed before it was loaded. `isOpen`: by what other records say. */
  #latest(
    isOpen: boolean,
    { list, trial, revision = this.head }: OrganizationDevice,
    groups: readonly GroupState[] | undefined,
  ): Pick<PolicyChange, 'revision' | 'atLatest'> {
    // A group that became watch only left the policy without a trace.
    const listed = [...list, ...(trial?.before?.security_groups ?? [])];
    const isTraceless =
      isOpen ||
      groups === undefined ||
      listed.some((id) => this.#index.group(id)?.selectable.mode === 'observe') ||
      // Whom rules name may have changed as well.
      groups.some(({ rules }) => rules.peers.size > 0);
    const since = (groups ?? noGroups).map((group) => this.#rulesChangedAt(group));
    return { revision: Math.max(revision, ...since, isTraceless ? this.head : 0), atLatest: true };
  }

  async #refreshAll(ids: Iterable<DeviceId>, at: ChangeMoment): Promise<void> {
    const all = [...ids];
    // Rules first, group by group: a device may have many large groups.
    await this.#slices.each(all, (id) => {
      const device = this.devices.get(id);
      if (device !== undefined) this.groupsOn(device);
    });
    await this.#slices.run(this.#index.readRules());
    await this.#slices.each(all, (id) => this.#refresh(id, at));
  }

  /** Notes a change of the device's policy, where there is one. */
  #refresh(id: DeviceId, at: ChangeMoment): void {
    const device = this.devices.get(id);
    if (device === undefined) return;
    const { groups, key, moments, timedAt } = this.policyOf(device);
    if (device.policyChanges.at(-1)?.key === key) return;
    const policyChange = {
      key,
      ...(moments && { moments }),
      ...(timedAt !== undefined && { timedAt }),
      ...at(device.record, groups),
    };
    const policyChanges = this.#policyChangeLists.after(device.policyChanges, policyChange);
    const { hostname, identity, record } = device;
    this.devices.set(id, { id, hostname, identity, record, policyChanges });
  }
}
