/**
 * Owns proposals: a watch-only group that would admit what some devices were observed to do, with the evidence of each rule and what the group would
 * refuse. Nothing is written.
 */
import type { DeviceReport } from '../../api/device.ts';
import { surroundingsOf, type DeviceSurroundings } from '../../api/enforcement/surroundings.ts';
import type { AddSecurityGroup } from '../../api/group.ts';
import { limits } from '../../api/limits.ts';
import type { LeftOut, NotCovered, Proposal, ProposedRule } from '../../api/usage/proposal.ts';
import { printAddress } from '../../policy/address.ts';
import { decide, isPlumbing } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { resolveGroup } from '../../policy/fleet/resolve.ts';
import { hasPort, packetOf, protocolName } from '../../policy/flow/protocol.ts';
import type { DeviceId, GroupId, OrganizationId } from '../../policy/ids.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { indexDevices } from '../../organization/fleet.ts';
import type { Organization, OrganizationDevice } from '../../organization/organization.ts';
import type { EnforcementStatus } from '../convergence/contract.ts';
import type { StoredFlow } from '../store/data/flows.ts';
import type { History } from '../store/log/history.ts';
import { refusedAtFarEnd } from './far-end-refusals.ts';
import { FarEnds, farKey, isProven, mostHolders, type FarEnd } from './far-ends.ts';
import { addUp, byPackets, coverageOf, eachFlow, TrafficSums, type ObservedFlowsOptions } from './observed-flows.ts';
import { observedAll } from './observed-time.ts';
import {
  alsoNamed,
  byName,
  directionOf,
  isExpressible,
  rulesForTraffic,
  type RuleForTraffic,
} from './proposed-rules.ts';

export interface ProposalOptions extends ObservedFlowsOptions {
  readonly store: ObservedFlowsOptions['store'] & { readonly history: Pick<History, 'identitiesOf'> };
  /** What these devices reported about themselves. */
  readonly statuses: (devices: readonly DeviceId[]) => Promise<readonly EnforcementStatus[]>;
}

/** Times are in milliseconds since the epoch. */
export interface ProposalQuestion {
  readonly org: OrganizationId;
  readonly snapshot: Organization;
  /** The devices that the proposal is for. */
  readonly devices: readonly OrganizationDevice[];
  /** The labels that name them, where they were asked for by label. */
  readonly labels?: readonly string[] | undefined;
  /** Also for traffic that the far end refused. */
  readonly includeRefused?: boolean | undefined;
  readonly since: number;
  readonly until: number;
}

/** Entries of each list of evidence. */
const mostListed = 10;
const mostNotCovered = 100;
/** Devices whose states are read at a time. */
const identitiesAtOnce = 32;

const nameOf = ({ hostname, id }: OrganizationDevice): string => (hostname === '' ? id : hostname);
const named = ({ id, hostname }: OrganizationDevice) => ({ device_id: id, hostname });
const packetsOf = (flows: readonly StoredFlow[]): number => flows.reduce((sum, { packets }) => sum + packets, 0);
const lastOf = (flows: readonly StoredFlow[]): string =>
  flows.reduce((last, { until }) => (until > last ? until : last), '');

interface Evidence {
  readonly farEnds: FarEnds;
  readonly snapshot: Organization;
  /** What the far end refused. */
  readonly refused: ReadonlySet<StoredFlow>;
}

/** The device that a far address proves to be, or those of which it proves nothing. */
function whoIs(
  end: FarEnd | undefined,
): Pick<ProposedRule['far_ends'][number], 'device_id' | 'hostname' | 'ambiguous'> {
  const [first] = end?.devices ?? [];
  if (end === undefined || first === undefined) return {};
  return isProven(end) ? named(first) : { ambiguous: end.devices.slice(0, mostListed).map(named) };
}

/** Observed traffic that is in no rule. */
const left = (flow: StoredFlow, snapshot: Organization): LeftOut => ({
  device_id: flow.device_id,
  hostname: snapshot.devices.get(flow.device_id)?.hostname ?? '',
  direction: flow.direction,
  far: printAddress(flow.family, flow.far),
  protocol: protocolName(flow.protocol),
  ...(hasPort(flow.protocol) && { port: flow.port }),
  packets: flow.packets,
  last_seen: flow.until,
});

/** Only what guardrails forbid on the device. */
function forbidsOf(snapshot: Organization, id: DeviceId): EffectivePolicy | undefined {
  const policy = policiesOf(snapshot).of(id);
  if (policy === undefined || 'missing' in policy) return undefined;
  const { forbid = [] } = policy.guardrails ?? {};
  return forbid.length === 0 ? undefined : { source: 'list', groups: [], guardrails: { forbid, require: [] } };
}

/** The evidence of a rule: the traffic that it admits. The caller can do other work between two steps. */
function* evidenceOf(
  { direction, rule, ends }: RuleForTraffic,
  flows: readonly StoredFlow[],
  { farEnds, snapshot, refused }: Evidence,
): Generator<void, ProposedRule> {
  const byFar = new Map<string, StoredFlow>();
  const observing = new Set<DeviceId>();
  const seen = new Set<DeviceId>();
  const unproven = new Set<OrganizationDevice>();
  for (const flow of flows) {
    const key = farKey(flow);
    const known = byFar.get(key);
    byFar.set(key, known === undefined ? flow : addUp(known, flow));
    observing.add(flow.device_id);
    const end = ends.get(key);
    if (end !== undefined && known === undefined) {
      if (isProven(end)) for (const { id } of end.devices) seen.add(id);
      else for (const device of end.devices) unproven.add(device);
    }
    yield;
  }
  const fars = [...byFar].toSorted(([, a], [, b]) => byPackets(a, b));
  yield;
  const also = alsoNamed(rule, seen, farEnds).toSorted(byName);
  yield;
  const observers = [...observing].flatMap((id) => snapshot.devices.get(id) ?? []).toSorted(byName);
  yield;
  const ambiguous = [...unproven].toSorted(byName);
  const refusedPackets = packetsOf(flows.filter((flow) => refused.has(flow)));
  return {
    direction,
    rule,
    packets: packetsOf(flows),
    last_seen: lastOf(flows),
    devices: observers.slice(0, mostListed).map(named),
    device_count: observers.length,
    far_ends: fars.slice(0, mostListed).map(([key, { family, far, packets, until }]) => ({
      far: printAddress(family, far),
      ...whoIs(ends.get(key)),
      packets,
      last_seen: until,
    })),
    far_end_count: fars.length,
    seen_once: fars.filter(([key, { packets }]) => packets === 1 && ends.get(key)?.devices.length === 0).length,
    also_admits: also.slice(0, mostListed).map(named),
    also_admits_count: also.length,
    ...(ambiguous.length > 0 && {
      ambiguous: ambiguous.slice(0, mostListed).map(named),
      ambiguous_count: ambiguous.length,
    }),
    ...(refusedPackets > 0 && { refused_by_far_end: refusedPackets }),
    ...(rule.ip_protocol.startsWith('icmp') && { assumes_echo: true as const }),
  };
}

/** The group, ready to be created. */
function groupOf(
  rules: readonly RuleForTraffic[],
  { devices, labels }: ProposalQuestion,
  window: Pick<Proposal, 'since' | 'until'>,
): AddSecurityGroup {
  const [only] = devices;
  const what =
    labels?.join('+') ?? (only !== undefined && devices.length === 1 ? nameOf(only) : `${devices.length} devices`);
  const of = (direction: Direction): StoredRule[] =>
    rules.flatMap((one) => (one.direction === direction ? [one.rule] : []));
  return {
    group_name: [...`proposed: ${what}`].slice(0, limits.name).join(''),
    group_description: `Proposed from traffic that was observed from ${window.since} to ${window.until}.`,
    mode: 'observe',
    ...(labels && { applies_to: [{ labels }] }),
    inbound_rules: of('inbound'),
    outbound_rules: of('outbound'),
  };
}

/** Gives the states of every device that lists an address of the traffic. */
async function readIdentities(
  flows: readonly StoredFlow[],
  farEnds: FarEnds,
  { org }: ProposalQuestion,
  { store, slices }: ProposalOptions,
): Promise<void> {
  const listed = new Set<DeviceId>();
  await slices.each(flows, (flow) => {
    const holders = farEnds.holders(flow);
    if (holders.length <= mostHolders) for (const { id } of holders) listed.add(id);
  });
  const ids = [...listed];
  for (let from = 0; from < ids.length; from += identitiesAtOnce) {
    const states = await store.history.identitiesOf(org, ids.slice(from, from + identitiesAtOnce));
    await slices.each(states, (state) => farEnds.addState(state));
  }
}

export async function propose(asked: ProposalQuestion, options: ProposalOptions): Promise<Proposal> {
  const { org, snapshot, until } = asked;
  const { slices } = options;
  const ids = asked.devices.map(({ id }) => id);
  const admitted = new TrafficSums();
  const window = { org, devices: ids, since: asked.since, until };
  /** The end of the first report of each far address. */
  const firstSeen = new Map<string, string>();
  const since = await eachFlow(options, window, (flow) => {
    const isAdmitted = flow.verdict === 'admitted';
    if (!admitted.add(flow, isAdmitted)) return false;
    const first = firstSeen.get(farKey(flow));
    if (isAdmitted && (first === undefined || flow.until < first)) firstSeen.set(farKey(flow), flow.until);
    return true;
  });
  const { not_recorded, device_days, share } = await coverageOf(options, { ...window, since });

  await slices.run(indexDevices(snapshot.devices.below));
  const observers = [...new Set(admitted.sums.map(({ device_id }) => device_id))];
  const surroundings = new Map<DeviceId, DeviceSurroundings>(
    (await options.statuses(observers)).map(({ device_id, status }) => [
      device_id,
      surroundingsOf(status as DeviceReport | undefined),
    ]),
  );
  const forbids = new Map<DeviceId, EffectivePolicy | undefined>();
  await slices.each(observers, (id) => forbids.set(id, forbidsOf(snapshot, id)));
  const { fleet } = policiesOf(snapshot);
  const farEnds = new FarEnds(fleet);
  const refused = await refusedAtFarEnd(admitted.sums, farEnds, { org, snapshot, since, until }, options);
  const notCovered: { readonly flow: StoredFlow; readonly reason: NotCovered['reason'] }[] = [];
  const wanted: StoredFlow[] = [];
  await slices.each(admitted.sums, (flow) => {
    if (refused.has(flow) && asked.includeRefused !== true) return;
    const packet = packetOf(flow);
    // The agent's way to its server needs no rule.
    if (isPlumbing(packet, surroundings.get(flow.device_id) ?? {}) !== undefined) return;
    const forbid = forbids.get(flow.device_id);
    if (forbid !== undefined && decide(forbid, packet).reason.kind === 'forbid')
      notCovered.push({ flow, reason: 'forbidden' });
    else wanted.push(flow);
  });

  await readIdentities(wanted, farEnds, asked, options);
  const rules = await slices.run(rulesForTraffic(wanted, farEnds, firstSeen));
  const rulesIn = (direction: Direction): readonly RuleForTraffic[] =>
    rules.filter((one) => one.direction === direction);
  const lists = { inbound: rulesIn('inbound'), outbound: rulesIn('outbound') };
  const group = resolveGroup(
    {
      id: '' as GroupId,
      name: '',
      inbound: lists.inbound.map(({ rule }) => rule),
      outbound: lists.outbound.map(({ rule }) => rule),
    },
    fleet,
  );
  // Not what the rules were made for, but what `decide` says of them.
  const policy: EffectivePolicy = { source: 'list', groups: [group] };
  const admittedBy = new Map<RuleForTraffic, StoredFlow[]>();
  await slices.each(wanted, (flow) => {
    const { verdict, reason } = decide(policy, packetOf(flow));
    if (verdict === 'drop') notCovered.push({ flow, reason: isExpressible(flow) ? 'too_many' : 'not_expressible' });
    const rule = reason.kind === 'rule' ? lists[directionOf(flow)][reason.index] : undefined;
    if (rule === undefined) return;
    const known = admittedBy.get(rule);
    if (known === undefined) admittedBy.set(rule, [flow]);
    else known.push(flow);
  });
  const proposed: ProposedRule[] = [];
  for (const rule of rules)
    proposed.push(await slices.run(evidenceOf(rule, admittedBy.get(rule) ?? [], { farEnds, snapshot, refused })));

  const times = { since: new Date(since).toISOString(), until: new Date(until).toISOString() };
  const cut = notCovered.toSorted((a, b) => byPackets(a.flow, b.flow));
  const refusedFlows = [...refused].toSorted(byPackets);
  return {
    ...times,
    devices: ids.length,
    device_days,
    observed: await share(since, observedAll),
    not_recorded,
    admitted_packets: admitted.packets.admitted,
    refused_packets: admitted.packets.refused,
    rules: proposed,
    not_covered: {
      packets: packetsOf(cut.map(({ flow }) => flow)),
      sums: cut.length,
      flows: cut.slice(0, mostNotCovered).map(({ flow, reason }) => ({ ...left(flow, snapshot), reason })),
    },
    refused_by_far_end: {
      packets: packetsOf(refusedFlows),
      sums: refusedFlows.length,
      flows: refusedFlows.slice(0, mostNotCovered).map((flow) => left(flow, snapshot)),
    },
    group: groupOf(rules, asked, times),
  };
}
