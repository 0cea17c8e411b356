/**
 * Owns the usage of rules: which rule of a group decided the traffic that agents observed. The kernel counts packets by group, because it merges the
 * rules of all groups into sets. So usage comes from recorded flows, each judged by `decide` with the present policy of its device.
 */
import type { GroupUsage, RuleUsage } from '../../api/usage/rule-usage.ts';
import { decide, decidingRules, rulesOf } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { sha256Hex } from '#sha256';
import type { DeviceId, GroupId, OrganizationId } from '../../policy/ids.ts';
import { packetOf } from '../../policy/flow/protocol.ts';
import type { Direction, PolicyGroup } from '../../policy/rule.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import { policiesOf } from '../../policy/snapshot/device-policies.ts';
import { indexDevices } from '../../policy/snapshot/snapshot-fleet.ts';
import type { PolicySnapshot } from '../../policy/snapshot/snapshot.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { StoredFlow } from '../store/contract/flows/flows.ts';
import type { GroupReader } from '../store/contract/groups.ts';
import type { Store } from '../store/contract/store.ts';
import { coverageOf, eachFlow, type ObservedFlowsOptions, type ObservedWindow } from './observed-flows.ts';
import { observedAll, observedRefused } from './observed-time.ts';

export interface UsageOptions {
  readonly store: Pick<Store, 'flows' | 'history' | 'devices'>;
  readonly slices: TimeSlices;
}

export interface UsageRequest {
  readonly org: OrganizationId;
  readonly group: GroupId;
  readonly snapshot: PolicySnapshot;
  readonly reader: GroupReader;
  /** Milliseconds since the epoch. */
  readonly since: number;
  readonly until: number;
}

const directions = ['inbound', 'outbound'] as const;
const statesLooked = 64;

/** Identifies a rule within its group by its content. */
const ruleId = (direction: Direction, group: PolicyGroup, index: number): string => {
  const rule = rulesOf(group, direction)[index];
  return rule === undefined ? '' : sha256Hex(`${direction} ${ruleIdentity(rule)}`).slice(0, 32);
};

interface Hits {
  packets: number;
  last: string;
}

/** Where a rule is. */
export const placeOf = (group: GroupId, direction: Direction, index: number): string =>
  `${group} ${direction} ${index}`;

/** Counts the hits of rules, by their places. The same traffic of devices with one policy is judged once. */
class HitCounter {
  readonly hits = new Map<string, Hits>();
  readonly #verdicts = new WeakMap<EffectivePolicy, Map<string, readonly string[]>>();

  add(policy: EffectivePolicy, flow: StoredFlow): void {
    for (const place of this.#placesOf(policy, flow)) {
      const known = this.hits.get(place);
      if (known === undefined) this.hits.set(place, { packets: flow.packets, last: flow.until });
      else {
        known.packets += flow.packets;
        if (flow.until > known.last) known.last = flow.until;
      }
    }
  }

  /** The places of all rules that decide it: one of them may expire, or be on trial only. */
  #placesOf(policy: EffectivePolicy, flow: StoredFlow): readonly string[] {
    let verdicts = this.#verdicts.get(policy);
    if (verdicts === undefined) this.#verdicts.set(policy, (verdicts = new Map()));
    const key = `${flow.direction} ${flow.family} ${flow.far} ${flow.protocol} ${flow.port}`;
    let places = verdicts.get(key);
    if (places === undefined) {
      const packet = packetOf(flow);
      const deciding = decidingRules(policy, packet, decide(policy, packet));
      places = deciding.map(({ group, direction, index }) => placeOf(group.id, direction, index));
      verdicts.set(key, places);
    }
    return places;
  }
}

/** Groups and guardrails of a policy. */
export const groupsIn = ({ groups, guardrails }: EffectivePolicy): readonly PolicyGroup[] => [
  ...groups,
  ...(guardrails?.forbid ?? []),
  ...(guardrails?.require ?? []),
];

/** The devices that have the group, or all devices, each with its policy. */
export async function policiesWith(
  snapshot: PolicySnapshot,
  group: GroupId | undefined,
  slices: TimeSlices,
): Promise<ReadonlyMap<DeviceId, EffectivePolicy>> {
  await slices.run(indexDevices(snapshot.devices.below));
  const policies = policiesOf(snapshot);
  const found = new Map<DeviceId, EffectivePolicy>();
  await slices.each(snapshot.devices.values(), (device) => {
    const policy = policies.ofDevice(device);
    if ('missing' in policy) return;
    if (group === undefined || groupsIn(policy).some(({ id }) => id === group)) found.set(device.id, policy);
  });
  return found;
}

/** Since when each rule has been in the group and enforced without a break, as far as the history of the window goes back. A group that was watch only had no rules in force. */
export async function rulesSince(
  { store }: UsageOptions,
  { org, group, reader, since }: Pick<UsageRequest, 'org' | 'group' | 'reader' | 'since'>,
): Promise<(direction: Direction, identity: string) => number> {
  const states = await store.history.ofGroup(org, group, { limit: statesLooked, reader });
  const found = new Map<string, number>();
  const ended = new Set<string>();
  for (const [index, { record, at }] of states.entries()) {
    const here = new Set<string>();
    for (const direction of record.mode === 'observe' ? [] : directions) {
      for (const rule of record[`${direction}_rules`] ?? []) here.add(`${direction} ${ruleIdentity(rule)}`);
    }
    const isNewest = index === 0;
    for (const key of here) if (isNewest || (found.has(key) && !ended.has(key))) found.set(key, Date.parse(at));
    for (const key of found.keys()) if (!here.has(key)) ended.add(key);
    if (Date.parse(at) <= since) break;
  }
  return (direction, identity) => Math.max(since, found.get(`${direction} ${identity}`) ?? since);
}

interface CountedHits {
  readonly hits: ReadonlyMap<string, Hits>;
  /** Later than asked for where there is more traffic than one request looks at. */
  readonly since: number;
}

/** Judges the recorded traffic. */
export async function countHits(
  window: ObservedWindow,
  { policies, ...options }: ObservedFlowsOptions & { readonly policies: ReadonlyMap<DeviceId, EffectivePolicy> },
): Promise<CountedHits> {
  const counter = new HitCounter();
  const since = await eachFlow(options, window, (flow) => {
    const policy = policies.get(flow.device_id);
    if (policy !== undefined) counter.add(policy, flow);
    return true;
  });
  return { hits: counter.hits, since };
}

/** Looks at the recorded traffic of the devices that have the group. Undefined where there is no such group. */
export async function groupUsage(asked: UsageRequest, options: UsageOptions): Promise<GroupUsage | undefined> {
  const { org, group: id, snapshot, until } = asked;
  const group = snapshot.groups.get(id)?.group;
  if (group === undefined) return undefined;
  const policies = await policiesWith(snapshot, id, options.slices);
  const devices = [...policies.keys()];
  const forbids = group.guardrail === 'forbid';
  const verdict = forbids ? 'refused' : 'admitted';
  const window = { org, devices, since: asked.since, until };
  const { hits, since } = await countHits({ ...window, verdict }, { ...options, policies });
  const { not_recorded, shares } = await coverageOf(options, { ...window, since });
  const sharesSince = (from: number) => shares(from, forbids ? observedRefused : observedAll);
  const sinceOf = await rulesSince(options, { ...asked, since });
  const rules: RuleUsage[] = [];
  for (const direction of directions) {
    for (const [index, rule] of rulesOf(group, direction).entries()) {
      const from = sinceOf(direction, ruleIdentity(rule));
      const observed = await sharesSince(from);
      const hit = hits.get(placeOf(id, direction, index));
      const isKnown = observed.isFull && not_recorded === 0;
      rules.push({
        direction,
        rule: index,
        rule_id: ruleId(direction, group, index),
        packets: hit?.packets ?? 0,
        ...(hit && { last_hit: hit.last }),
        state: hit !== undefined ? 'used' : isKnown ? 'unused' : 'unknown',
        observed: observed.value,
        since: new Date(from).toISOString(),
      });
    }
  }
  return {
    group_id: id,
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    devices: devices.length,
    observed: (await sharesSince(since)).value,
    not_recorded,
    rules,
  };
}
