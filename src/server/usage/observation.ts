/**
 * Owns what a watch-only group would have done: the difference of two policies, with the group and without it, over the traffic that agents observed.
 * Nothing here decides anything on a device.
 */
import { limits } from '../../api/limits.ts';
import type { DeviceReport } from '../../api/device.ts';
import { surroundingsOf, type DeviceSurroundings } from '../../api/enforcement/surroundings.ts';
import type { Flow } from '../../api/flows/flow.ts';
import type { GroupObservation } from '../../api/usage/group-observation.ts';
import { decide, type DecideOptions, type Decision } from '../../policy/decide.ts';
import { groupsIn, type EffectivePolicy } from '../../policy/effective.ts';
import { packetOf } from '../../policy/flow/protocol.ts';
import type { DeviceId, GroupId, OrganizationId } from '../../policy/ids.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { indexDevices } from '../../organization/fleet.ts';
import { overlay, type Organization } from '../../organization/organization.ts';
import type { EnforcementStatus } from '../convergence/contract.ts';
import { textsThatFit } from '../explain/texts-that-fit.ts';
import { explainFlows } from '../explain/flows.ts';
import type { StoredFlow } from '../store/data/flows.ts';
import {
  byPackets,
  coverageOf,
  eachFlow,
  trafficKey,
  TrafficSums,
  type ObservedFlowsOptions,
} from './observed-flows.ts';
import { observedAll, observedRefused } from './observed-time.ts';

export interface ObservationOptions extends ObservedFlowsOptions {
  /** What these devices reported about themselves. */
  readonly statuses: (devices: readonly DeviceId[]) => Promise<readonly EnforcementStatus[]>;
}

/** Times are in milliseconds since the epoch. */
export interface ObservationRequest {
  readonly org: OrganizationId;
  readonly group: GroupId;
  readonly snapshot: Organization;
  readonly since: number;
  readonly until: number;
  /** Sums that each list names. */
  readonly limit: number;
}

/** The policy of a device without the group, and with it. */
interface PolicyPair {
  readonly without: EffectivePolicy;
  readonly with: EffectivePolicy;
}

/** The organization as it would be if the group enforced. */
function enforcedSnapshot(snapshot: Organization, id: GroupId): Organization {
  const stored = snapshot.groups.get(id);
  if (stored === undefined) return snapshot;
  const { trial: _trial, ...group } = stored.group;
  const enforced: PolicyGroup = { ...group, mode: 'enforce' };
  return overlay(snapshot, [{ kind: 'group', id, group: { ...stored, group: enforced } }]);
}

/** The devices that would have the group. */
async function pairsOf(
  snapshot: Organization,
  enforced: Organization,
  group: GroupId,
  { slices }: ObservationOptions,
): Promise<ReadonlyMap<DeviceId, PolicyPair>> {
  await slices.run(indexDevices(snapshot.devices.below));
  const [before, after] = [policiesOf(snapshot), policiesOf(enforced)];
  const found = new Map<DeviceId, PolicyPair>();
  await slices.each(snapshot.devices.values(), (device) => {
    const [without, having] = [before.ofDevice(device), after.ofDevice(device)];
    if ('missing' in without || 'missing' in having) return;
    if (groupsIn(having).some(({ id }) => id === group)) found.set(device.id, { without, with: having });
  });
  return found;
}

const verdictOf = ({ verdict }: Decision): StoredFlow['verdict'] => (verdict === 'accept' ? 'admitted' : 'refused');

/**
 * Whether the group changes the verdict on this traffic. A sum of ICMP may be echo or not: it is taken for the one on which the policy without the group
 * agrees with the kernel. Where neither agrees, the policy has changed since, and nothing can be said.
 */
function isChanged(pair: PolicyPair, flow: StoredFlow, options: DecideOptions = {}): boolean {
  for (const isEcho of [true, false]) {
    const packet = packetOf(flow, { isEcho });
    if (verdictOf(decide(pair.without, packet, options)) !== flow.verdict) continue;
    return verdictOf(decide(pair.with, packet, options)) !== flow.verdict;
  }
  return false;
}

/** Finds the traffic on which two policies differ. The same traffic of devices with the same policies is judged once. */
class Differences {
  readonly #verdicts = new WeakMap<EffectivePolicy, WeakMap<EffectivePolicy, Map<string, boolean>>>();

  has(pair: PolicyPair, flow: StoredFlow): boolean {
    let inner = this.#verdicts.get(pair.without);
    if (inner === undefined) this.#verdicts.set(pair.without, (inner = new WeakMap()));
    let known = inner.get(pair.with);
    if (known === undefined) inner.set(pair.with, (known = new Map()));
    const key = trafficKey(flow);
    let differs = known.get(key);
    if (differs === undefined) known.set(key, (differs = isChanged(pair, flow)));
    return differs;
  }
}

const flipped = { admitted: 'refused', refused: 'admitted' } as const;

/** Undefined where there is no such group. One that enforces changes nothing by enforcing. */
export async function groupObservation(
  asked: ObservationRequest,
  options: ObservationOptions,
): Promise<GroupObservation | undefined> {
  const { org, group, snapshot, until, limit } = asked;
  const stored = snapshot.groups.get(group)?.group;
  if (stored === undefined) return undefined;
  const enforced = enforcedSnapshot(snapshot, group);
  const pairs = await pairsOf(snapshot, enforced, group, options);
  const devices = [...pairs.keys()];
  const differences = new Differences();
  const traffic = new TrafficSums();
  const window = { org, devices, since: asked.since, until };
  // Where most devices have it, all traffic is looked at: to send thousands of devices with every page costs more.
  const isOfMost = devices.length > 0 && 2 * devices.length >= snapshot.devices.size;
  const looked = isOfMost ? { ...window, devices: undefined } : window;
  const since = await eachFlow(options, looked, (flow) => {
    const pair = pairs.get(flow.device_id);
    return pair === undefined || traffic.add(flow, differences.has(pair, flow));
  });
  const { not_recorded, device_days, share } = await coverageOf(options, { ...window, since });

  // What passes beside the policy, such as the agent's way to the server, is looked at only where it matters.
  const statuses = await options.statuses([...new Set(traffic.sums.map(({ device_id }) => device_id))]);
  const surroundings = new Map<DeviceId, DeviceSurroundings>(
    statuses.map(({ device_id, status }) => [device_id, surroundingsOf(status as DeviceReport | undefined)]),
  );
  const changed: StoredFlow[] = [];
  await options.slices.each(traffic.sums, (flow) => {
    const pair = pairs.get(flow.device_id);
    if (pair !== undefined && isChanged(pair, flow, surroundings.get(flow.device_id) ?? {})) changed.push(flow);
  });

  const list = async (verdict: StoredFlow['verdict']): Promise<GroupObservation['would_refuse']> => {
    const sums = changed.filter((flow) => flow.verdict === verdict).toSorted(byPackets);
    // With the verdict that it would have had, so that the decision is about the same packet.
    const shown = sums.slice(0, limit).map((flow) => ({ ...flow, verdict: flipped[verdict] }));
    const flows = await options.slices.run(explainFlows(shown, { snapshot: enforced, statuses }));
    // Each may name a rule with thousands of addresses.
    const { length } = await options.slices.run(textsThatFit(flows, limits.answer / 4));
    return {
      packets: sums.reduce((sum, { packets }) => sum + packets, 0),
      sums: sums.length,
      flows: flows.slice(0, length).map((flow): Flow => ({ ...flow, verdict })),
    };
  };
  return {
    group_id: group,
    mode: stored.mode ?? 'enforce',
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    devices: devices.length,
    device_days,
    observed: await share(since, observedAll),
    observed_refused: await share(since, observedRefused),
    not_recorded,
    admitted_packets: traffic.packets.admitted,
    refused_packets: traffic.packets.refused,
    would_refuse: await list('admitted'),
    would_admit: await list('refused'),
  };
}
