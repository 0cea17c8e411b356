/**
 * Owns what is known of the use of rules in a window: counts by rule, and how long each device was observed and said which rules of its groups decided.
 */
import { defaultAgentSettings, type AgentSettings } from '../../api/organization.ts';
import type { DeviceId, GroupId, OrganizationId } from '../../policy/ids.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { FlowCoverage } from '../store/data/flows.ts';
import type { RuleCount } from '../store/flows/rule-usage.ts';
import type { Store } from '../store/open.ts';
import { coverageByDevice, registeredAt } from './observed-flows.ts';
import { ObservedShare, type ObservedDevice, type ObservedSpan } from './observed-time.ts';

export interface ObservedRulesOptions {
  readonly store: Pick<Store, 'ruleUsage' | 'devices' | 'organizations'>;
  readonly slices: SlicedWork;
}

export interface ObservedRulesWindow {
  readonly org: OrganizationId;
  /** Of this group only. */
  readonly group?: GroupId;
  readonly devices: readonly DeviceId[];
  /** Milliseconds since the epoch. */
  readonly since: number;
}

/** A large answer would hold the event loop. */
const devicesAtOnce = 256;

const keyOf = (group: GroupId, what: string): string => `${group} ${what}`;

export class ObservedRules {
  readonly #slices: SlicedWork;
  readonly #settings: AgentSettings;
  readonly #coverage: ReadonlyMap<DeviceId, readonly FlowCoverage[]>;
  readonly #registered: ReadonlyMap<DeviceId, ObservedDevice>;
  readonly #reportedSince = new Map<string, number>();
  readonly #counts = new Map<string, RuleCount>();

  private constructor(
    slices: SlicedWork,
    settings: AgentSettings,
    coverage: ReadonlyMap<DeviceId, readonly FlowCoverage[]>,
    registered: ReadonlyMap<DeviceId, ObservedDevice>,
  ) {
    this.#slices = slices;
    this.#settings = settings;
    this.#coverage = coverage;
    this.#registered = registered;
  }

  static async read(
    { org, group, devices, since }: ObservedRulesWindow,
    o: ObservedRulesOptions,
  ): Promise<ObservedRules> {
    const { store, slices } = o;
    const { ruleUsage } = store;
    // The counts last: what comes meanwhile is counted, but never taken for observed only.
    const coverage = await coverageByDevice(ruleUsage, slices, { org, devices, since });
    const settings = (await store.organizations.settings(org)) ?? defaultAgentSettings;
    const registered = new Map<DeviceId, ObservedDevice>();
    for (const one of await registeredAt(o, { org, devices })) registered.set(one.id, one);
    const found = new ObservedRules(slices, settings, coverage, registered);
    for (let first = 0; first < devices.length; first += devicesAtOnce) {
      const pairs = await ruleUsage.reportedSince(org, devices.slice(first, first + devicesAtOnce), group);
      await slices.each(pairs, ({ group: id, device, since: from }) =>
        found.#reportedSince.set(keyOf(id, device), Date.parse(from)),
      );
    }
    const counts = await ruleUsage.counts(org, new Date(since).toISOString(), group);
    await slices.each(counts, (count) => found.#counts.set(keyOf(count.group, count.rule), count));
    return found;
  }

  /** Undefined where nothing used it. */
  countOf(group: GroupId, rule: string): RuleCount | undefined {
    return this.#counts.get(keyOf(group, rule));
  }

  /** Packets that these devices counted and did not record. */
  async notRecorded(devices: readonly DeviceId[]): Promise<number> {
    let sum = 0;
    await this.#slices.each(devices, (id) => {
      for (const row of this.#coverage.get(id) ?? []) sum += row.not_recorded;
    });
    return sum;
  }

  /** How much of the time of these devices was observed, and they said what the group decided. A device that is not registered any more has no time. */
  async shareOf(group: GroupId, devices: readonly DeviceId[], span: ObservedSpan): Promise<ObservedShare> {
    const share = new ObservedShare(span, this.#settings);
    await this.#slices.each(devices, (id) => {
      const device = this.#registered.get(id);
      if (device === undefined) return;
      const reportedSince = this.#reportedSince.get(keyOf(group, id)) ?? Number.POSITIVE_INFINITY;
      share.add({ ...device, reportedSince }, this.#coverage.get(id) ?? []);
    });
    return share;
  }
}
