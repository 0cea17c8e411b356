/**
 * Owns the usage of rules: which rule of a group decided the traffic that agents observed. The kernel counts packets by group, because it merges the
 * rules of all groups into sets. So usage comes from recorded flows, each judged by `decide` with the present policy of its device.
 */
import type { GroupUsage, RuleUsage } from '../../api/usage/rule-usage.ts';
import { decide, rulesOf } from '../../policy/decide.ts';
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
import type { FlowCoverage, StoredFlow } from '../store/contract/flows/flows.ts';
import type { GroupReader } from '../store/contract/groups.ts';
import type { Store } from '../store/contract/store.ts';
import { isFull, observedAll, observedRefused, observedShare, type ObservedDevice } from './observed-time.ts';

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
const flowsAtOnce = 5_000;
/** Sums that one request looks at. Where there are more, the window begins later. */
const mostFlows = 400_000;
const devicesAtOnce = 256;
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

/** Counts the hits of one group's rules, by direction and place. The same traffic of devices with one policy is judged once. */
class HitCounter {
  readonly hits = new Map<string, Hits>();
  readonly #group: GroupId;
  readonly #verdicts = new WeakMap<EffectivePolicy, Map<string, string>>();

  constructor(group: GroupId) {
    this.#group = group;
  }

  add(policy: EffectivePolicy, flow: StoredFlow): void {
    const place = this.#placeOf(policy, flow);
    if (place === '') return;
    const known = this.hits.get(place);
    if (known === undefined) this.hits.set(place, { packets: flow.packets, last: flow.until });
    else {
      known.packets += flow.packets;
      if (flow.until > known.last) known.last = flow.until;
    }
  }

  /** Direction and place of the rule that decides it; empty where that is no rule of the group. */
  #placeOf(policy: EffectivePolicy, flow: StoredFlow): string {
    let verdicts = this.#verdicts.get(policy);
    if (verdicts === undefined) this.#verdicts.set(policy, (verdicts = new Map()));
    const key = `${flow.direction} ${flow.family} ${flow.far} ${flow.protocol} ${flow.port}`;
    let place = verdicts.get(key);
    if (place === undefined) {
      const { reason } = decide(policy, packetOf(flow));
      place = 'rule' in reason && reason.group.id === this.#group ? `${reason.direction} ${reason.index}` : '';
      verdicts.set(key, place);
    }
    return place;
  }
}

/** The devices that have the group, each with its policy. */
export async function policiesWith(
  snapshot: PolicySnapshot,
  group: GroupId,
  slices: TimeSlices,
): Promise<ReadonlyMap<DeviceId, EffectivePolicy>> {
  await slices.run(indexDevices(snapshot.devices.below));
  const policies = policiesOf(snapshot);
  const found = new Map<DeviceId, EffectivePolicy>();
  await slices.each(snapshot.devices.values(), (device) => {
    const policy = policies.ofDevice(device);
    if ('missing' in policy) return;
    const { groups, guardrails } = policy;
    const all = [...groups, ...(guardrails?.forbid ?? []), ...(guardrails?.require ?? [])];
    if (all.some(({ id }) => id === group)) found.set(device.id, policy);
  });
  return found;
}

async function registeredAt(
  { store }: UsageOptions,
  org: OrganizationId,
  ids: readonly DeviceId[],
): Promise<readonly ObservedDevice[]> {
  const found: ObservedDevice[] = [];
  for (let from = 0; from < ids.length; from += devicesAtOnce) {
    for (const { record } of await store.devices.find(org, ids.slice(from, from + devicesAtOnce)))
      found.push({ id: record.id, createdAt: Date.parse(record.created_at) });
  }
  return found;
}

/** Since when each rule is in the group without a break, as far as the history of the window goes back. */
async function rulesSince(
  { store }: UsageOptions,
  { org, group, reader, since }: UsageRequest,
): Promise<(direction: Direction, identity: string) => number> {
  const states = await store.history.ofGroup(org, group, { limit: statesLooked, reader });
  const found = new Map<string, number>();
  const ended = new Set<string>();
  for (const { record, at } of states) {
    const here = new Set<string>();
    for (const direction of directions) {
      for (const rule of record[`${direction}_rules`] ?? []) here.add(`${direction} ${ruleIdentity(rule)}`);
    }
    const isNewest = found.size === 0 && ended.size === 0;
    for (const key of here) if (isNewest || (found.has(key) && !ended.has(key))) found.set(key, Date.parse(at));
    for (const key of found.keys()) if (!here.has(key)) ended.add(key);
    if (Date.parse(at) <= since) break;
  }
  return (direction, identity) => Math.max(since, found.get(`${direction} ${identity}`) ?? since);
}

const byDevice = (rows: readonly FlowCoverage[]): ReadonlyMap<DeviceId, readonly FlowCoverage[]> => {
  const found = new Map<DeviceId, FlowCoverage[]>();
  for (const row of rows) found.set(row.device_id, [...(found.get(row.device_id) ?? []), row]);
  return found;
};

/** Looks at the recorded traffic of the devices that have the group. Undefined where there is no such group. */
export async function groupUsage(asked: UsageRequest, options: UsageOptions): Promise<GroupUsage | undefined> {
  const { org, group: id, snapshot, until } = asked;
  const group = snapshot.groups.get(id)?.group;
  if (group === undefined) return undefined;
  const { store, slices } = options;
  const policies = await policiesWith(snapshot, id, slices);
  const devices = [...policies.keys()];
  const forbids = group.guardrail === 'forbid';
  const counter = new HitCounter(id);
  let since = asked.since;
  let after: string | undefined;
  let looked = 0;
  while (devices.length > 0) {
    const { flows, next } = await store.flows.page(org, {
      devices,
      verdict: forbids ? 'refused' : 'admitted',
      since: new Date(asked.since).toISOString(),
      until: new Date(until).toISOString(),
      limit: flowsAtOnce,
      ...(after !== undefined && { after }),
    });
    await slices.each(flows, (flow) => {
      const policy = policies.get(flow.device_id);
      if (policy !== undefined) counter.add(policy, flow);
    });
    looked += flows.length;
    if (next === undefined) break;
    if (looked >= mostFlows) {
      // What is older was not looked at: the window begins where the newest of it ends.
      since = Math.max(since, Date.parse(flows.at(-1)?.until ?? '') || until);
      break;
    }
    after = next;
  }
  const coverage = await store.flows.coverage(org, new Date(since).toISOString(), devices);
  const registered = await registeredAt(options, org, devices);
  const covered = byDevice(coverage);
  const not_recorded = coverage.reduce((sum, row) => sum + row.not_recorded, 0);
  const observed = forbids ? observedRefused : observedAll;
  const shareSince = (from: number): number => observedShare(registered, covered, { from, until, observed });
  const sinceOf = await rulesSince(options, { ...asked, since });
  const rules = directions.flatMap((direction) =>
    rulesOf(group, direction).map((rule, index): RuleUsage => {
      const from = sinceOf(direction, ruleIdentity(rule));
      const share = shareSince(from);
      const hit = counter.hits.get(`${direction} ${index}`);
      const isKnown = isFull(share) && not_recorded === 0;
      return {
        direction,
        rule: index,
        rule_id: ruleId(direction, group, index),
        packets: hit?.packets ?? 0,
        ...(hit && { last_hit: hit.last }),
        state: hit !== undefined ? 'used' : isKnown ? 'unused' : 'unknown',
        observed: share,
        since: new Date(from).toISOString(),
      };
    }),
  );
  return {
    group_id: id,
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    devices: devices.length,
    observed: shareSince(since),
    not_recorded,
    rules,
  };
}
