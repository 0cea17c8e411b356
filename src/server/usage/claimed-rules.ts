/**
 * Owns what of an agent's report of rules counts: groups that the device has now, and rules that these have now. So a device that lies adds to the counts of its own
 * groups only, and no more different rules are kept than there are.
 */
import type { FlowReport } from '../../api/flows/flow-report.ts';
import { rulesOf } from '../../policy/decide.ts';
import { groupsIn, type EffectivePolicy } from '../../policy/effective.ts';
import type { DeviceId, GroupId, OrganizationId } from '../../policy/ids.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { GroupsInEffect } from '../../organization/groups-in-effect.ts';
import type { Organization } from '../../organization/organization.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import { WorkRefused } from '../scheduling/work-budget.ts';
import type { DecidingRule } from '../store/data/flows.ts';

type Claims = Pick<FlowReport, 'rules' | 'groups'>;

export interface KnownClaims {
  readonly groups: readonly GroupId[];
  /** By their places in the report; undefined where the device has no such rule. */
  readonly rules: readonly (DecidingRule | undefined)[];
}

export interface ClaimedRulesOptions {
  readonly snapshots: {
    /** The organization with everything that was written before this call. */
    read(org: OrganizationId): Promise<Organization>;
    /** As it was at most so many milliseconds ago; undefined where it is not known here. */
    recent(org: OrganizationId, withinMs: number): Organization | undefined;
  };
  /** Lets an organization into memory. Gives what takes it out again. */
  readonly enter: (org: OrganizationId) => Promise<() => void>;
  readonly slices: SlicedWork;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
}

/** A claim that is refused by an older state is looked at again by the present one. */
const recentMs = 10_000;
/** So long no report makes an organization load that is too large to be kept. */
const restMs = 300_000;
const directions = ['inbound', 'outbound'] as const;

export class ClaimedRules {
  readonly #o: ClaimedRulesOptions;
  readonly #tooLarge = new Map<OrganizationId, number>();
  readonly #inEffect = new WeakMap<Organization['groups'], GroupsInEffect>();
  readonly #ids = new WeakMap<PolicyGroup, Promise<ReadonlySet<string>>>();

  constructor(options: ClaimedRulesOptions) {
    this.#o = options;
  }

  /** Undefined where nothing is known of the rules: the report does not say, or the organization is too large. */
  async read(org: OrganizationId, device: DeviceId, { groups, rules = [] }: Claims): Promise<KnownClaims | undefined> {
    if (groups === undefined) return undefined;
    const recent = this.#o.snapshots.recent(org, recentMs);
    const known = recent && (await this.#knownIn(recent, device, { groups, rules }));
    const isWhole = known?.groups.length === groups.length && !known.rules.includes(undefined);
    if (isWhole) return known;
    const snapshot = await this.#load(org);
    return snapshot && (await this.#knownIn(snapshot, device, { groups, rules }));
  }

  async #load(org: OrganizationId): Promise<Organization | undefined> {
    const { snapshots, enter, monotonic } = this.#o;
    if ((this.#tooLarge.get(org) ?? 0) > monotonic()) return undefined;
    this.#tooLarge.delete(org);
    let leave: (() => void) | undefined;
    try {
      const isKept = snapshots.recent(org, Number.POSITIVE_INFINITY) !== undefined;
      leave = isKept ? undefined : await enter(org);
      const snapshot = await snapshots.read(org);
      if (snapshots.recent(org, recentMs) === undefined) this.#tooLarge.set(org, monotonic() + restMs);
      return snapshot;
    } catch (error) {
      if (!(error instanceof WorkRefused) || error.why !== 'too_costly') throw error;
      this.#tooLarge.set(org, monotonic() + restMs);
      return undefined;
    } finally {
      leave?.();
    }
  }

  async #knownIn(snapshot: Organization, device: DeviceId, { groups, rules }: Required<Claims>): Promise<KnownClaims> {
    const own = this.#groupsOf(snapshot, device);
    const known: (DecidingRule | undefined)[] = [];
    for (const { group_id, rule_id } of rules) {
      let found: DecidingRule | undefined;
      for (const group of own.get(group_id.toLowerCase()) ?? [])
        if ((await this.#idsOf(group)).has(rule_id)) found = { group: group.id, rule: rule_id };
      known.push(found);
    }
    return { groups: groups.flatMap((id) => own.get(id.toLowerCase())?.[0]?.id ?? []), rules: known };
  }

  /** The groups of the device now and after each trial that ends, in each of their states. */
  #groupsOf(snapshot: Organization, id: DeviceId): ReadonlyMap<string, readonly PolicyGroup[]> {
    const device = snapshot.devices.get(id);
    const found = new Map<string, PolicyGroup[]>();
    if (device === undefined) return found;
    let inEffect = this.#inEffect.get(snapshot.groups);
    if (inEffect === undefined) this.#inEffect.set(snapshot.groups, (inEffect = new GroupsInEffect(snapshot)));
    const policy = inEffect.of(device);
    if ('missing' in policy) return found;
    for (let each: EffectivePolicy | undefined = policy; each !== undefined; each = each.next?.policy) {
      for (const group of groupsIn(each)) {
        const states = found.get(group.id);
        if (states === undefined) found.set(group.id, [group]);
        else if (!states.includes(group)) states.push(group);
      }
    }
    return found;
  }

  /** Worked out once for each state of a group: groups never change. */
  #idsOf(group: PolicyGroup): Promise<ReadonlySet<string>> {
    let ids = this.#ids.get(group);
    if (ids === undefined) this.#ids.set(group, (ids = this.#work(group)));
    return ids;
  }

  async #work(group: PolicyGroup): Promise<ReadonlySet<string>> {
    const ids = new Set<string>();
    for (const direction of directions)
      await this.#o.slices.each(rulesOf(group, direction), (rule) => ids.add(ruleIdOf(direction, rule)));
    return ids;
  }
}
