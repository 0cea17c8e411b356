/** Owns the answer to "may this connect to that?": the policy's verdict on both sides, the reasons, and whether the devices enforce it. */
import type { Explanation, ExplainedSide } from '../../api/enforcement/explanation.ts';
import { surroundingsOf } from '../../api/enforcement/surroundings.ts';
import type { DeviceReport } from '../../api/device.ts';
import { peersAt } from '../../organization/fleet.ts';
import { stateWithHash } from '../../organization/group-rules.ts';
import { printAddress, type Address } from '../../policy/address.ts';
import { admittingRules, decide, type Reason } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { readGroupRecord } from '../../policy/fleet/group-record.ts';
import type { PeerLookup } from '../../policy/fleet/rule-peers.ts';
import type { DeviceId, GroupId, OrganizationId } from '../../policy/ids.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { Packet, Transport } from '../../policy/packet.ts';
import type { Direction, Peer, PolicyGroup } from '../../policy/rule.ts';
import { StoreError } from '../problems.ts';
import type { Groups } from '../store/groups/groups.ts';
import type { Convergence, EnforcementStatus, GroupInEffect, Survey, SurveyedDevice } from '../convergence/contract.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';

/** One end: a device of the organization, or an address that may be one's. */
export type ExplainedEndpoint = { readonly device: DeviceId } | { readonly address: Address };

export interface ExplainRequest {
  readonly from: ExplainedEndpoint;
  readonly to: ExplainedEndpoint;
  /** For the address family of both ends. */
  readonly transport: (family: 4 | 6) => Transport;
}

/** Why there is nothing to explain. */
export type Unexplained =
  | 'from_unknown'
  | 'to_unknown'
  | 'from_has_no_address'
  | 'to_has_no_address'
  | 'families_differ'
  | 'no_device';

interface FoundEndpoint {
  readonly address: Address;
  readonly device: SurveyedDevice | undefined;
}

const same = (a: Address, b: Address): boolean => a.family === b.family && a.value === b.value;

function findEndpoint(end: ExplainedEndpoint, { devices }: Survey): FoundEndpoint | 'unknown' | 'has_no_address' {
  if ('address' in end) {
    const { address } = end;
    const device = [...devices.values()].find(({ identity }) => identity.addresses.some((own) => same(own, address)));
    return { address, device };
  }
  const device = devices.get(end.device);
  if (device === undefined) return 'unknown';
  const [address] = device.identity.addresses;
  return address === undefined ? 'has_no_address' : { address, device };
}

/** So often the records are read again when they changed between two reads. */
const mostTries = 3;

interface FoundEndpoints {
  readonly from: FoundEndpoint;
  readonly to: FoundEndpoint;
}

function endpointsOf({ from, to }: ExplainRequest, survey: Survey): FoundEndpoints | Unexplained {
  const [source, target] = [findEndpoint(from, survey), findEndpoint(to, survey)];
  if (typeof source === 'string') return `from_${source}`;
  if (typeof target === 'string') return `to_${target}`;
  if (source.address.family !== target.address.family) return 'families_differ';
  return source.device === undefined && target.device === undefined ? 'no_device' : { from: source, to: target };
}

export interface ExplainOptions {
  readonly convergence: Convergence;
  readonly groups: Pick<Groups, 'find'>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly work: SlicedWork;
}

/** Reads policy, fleet and receipts at one revision. Fails with `unavailable` when they keep changing. */
export async function explain(
  org: OrganizationId,
  asked: ExplainRequest,
  { convergence, groups, now, work }: ExplainOptions,
): Promise<Explanation | Unexplained> {
  await work.next();
  for (let tries = 0; tries < mostTries; tries += 1) {
    const survey = await convergence.survey(org);
    const ends = endpointsOf(asked, survey);
    if (typeof ends === 'string') return ends;
    const devices = [ends.from.device, ends.to.device].flatMap((device) => device?.id ?? []);
    const policies = await readPolicies(org, devices, survey, { groups, now, work });
    const enforcementStatuses = await survey.enforcementStatuses(devices);
    // The devices that rules name are known for the moment of the survey only.
    if (policies !== undefined && (await convergence.survey(org)).revision === survey.revision) {
      return work.run(answerOf(survey, ends, asked.transport(ends.from.address.family), policies, enforcementStatuses));
    }
  }
  throw new StoreError({ code: 'unavailable' });
}

type Policies = ReadonlyMap<DeviceId, EffectivePolicy>;

/** Records that are read at a time: each may be large. */
const mostRead = 4;

/** Identifies a state of a group. During a trial, two devices may have different states of one group. */
const stateKey = ({ id, rules }: GroupInEffect): string => `${id} ${rules.hash}`;

/** The groups by state, each read once; undefined when one differs from the survey. */
async function readGroups(
  org: OrganizationId,
  wanted: ReadonlyMap<string, GroupInEffect>,
  { groups, work }: Pick<ExplainOptions, 'groups' | 'work'>,
): Promise<ReadonlyMap<string, PolicyGroup> | undefined> {
  const read = new Map<string, PolicyGroup>();
  const states = [...wanted.values()];
  const ids = [...new Set(states.map(({ id }) => id))];
  for (let from = 0; from < ids.length; from += mostRead) {
    for (const { record } of await groups.find(org, ids.slice(from, from + mostRead))) {
      const wantedOf = states.filter(({ id }) => id === record.id);
      await work.each(wantedOf, (one) => {
        const state = stateWithHash(record, one.rules.hash);
        if (state !== undefined) read.set(stateKey(one), readGroupRecord(state));
      });
    }
  }
  return read.size === wanted.size ? read : undefined;
}

async function readPolicies(
  org: OrganizationId,
  devices: readonly DeviceId[],
  survey: Survey,
  { groups, now, work }: Pick<ExplainOptions, 'groups' | 'now' | 'work'>,
): Promise<Policies | undefined> {
  const effects = devices.map((device) => [device, survey.groupsOn(device)] as const);
  const wanted = new Map(effects.flatMap(([, effect = []]) => effect.map((one) => [stateKey(one), one] as const)));
  const read = await readGroups(org, wanted, { groups, work });
  const policies = new Map<DeviceId, EffectivePolicy>();
  for (const [device, effect] of effects) {
    if (effect === undefined || read === undefined) return undefined;
    const all = effect.flatMap((one) => read.get(stateKey(one)) ?? []);
    const of = (kind: PolicyGroup['guardrail']): readonly PolicyGroup[] =>
      all.filter(({ guardrail }) => guardrail === kind);
    const guardrails = { forbid: of('forbid'), require: of('require') };
    const isolation = survey.isolationOn(device);
    const policy = { source: 'list', groups: of(undefined), guardrails, ...(isolation && { isolation }) } as const;
    policies.set(device, policyAt(policy, now()).policy);
  }
  return policies;
}

function peersIn({ devices }: Survey, address: Address): PeerLookup {
  const owners = [...devices.values()].filter(({ identity }) => identity.addresses.some((own) => same(own, address)));
  return peersAt(address, owners, (id) => devices.get(id as DeviceId)?.identity);
}

function* answerOf(
  survey: Survey,
  { from, to }: FoundEndpoints,
  transport: Transport,
  policies: Policies,
  enforcementStatuses: readonly EnforcementStatus[],
): Generator<void, Explanation> {
  const sideOf = ({ device }: FoundEndpoint, direction: Direction, far: FoundEndpoint): ExplainedSide[] => {
    const policy = device && policies.get(device.id);
    const enforcement = enforcementStatuses.find(({ device_id }) => device_id === device?.id);
    if (device === undefined || policy === undefined || enforcement === undefined) return [];
    const packet: Packet = { direction, family: far.address.family, remote: far.address.value, transport };
    const surroundings = surroundingsOf(enforcement.status as DeviceReport | undefined);
    const fleet = peersIn(survey, far.address);
    const { verdict, reason } = decide(policy, packet, { ...surroundings, fleet });
    const { in_force, online, last_seen_at } = enforcement;
    return [
      {
        device_id: device.id,
        direction,
        verdict: verdict === 'accept' ? 'allowed' : 'refused',
        ...reasonOf(reason),
        ...(reason.kind === 'forbid' && voidRules(policy, packet, fleet)),
        groups: (survey.groupsOn(device.id) ?? []).map(({ id }): GroupId => id),
        in_force,
        online,
        ...(last_seen_at !== undefined && { last_seen_at }),
      },
    ];
  };
  const outbound = sideOf(from, 'outbound', to);
  yield;
  const sides = [...outbound, ...sideOf(to, 'inbound', from)];
  return {
    revision: survey.revision,
    verdict: sides.every(({ verdict }) => verdict === 'allowed') ? 'allowed' : 'refused',
    in_force: sides.every(({ in_force }) => in_force === 'yes'),
    from: endOf(from),
    to: endOf(to),
    sides,
  };
}

/** Without the current addresses of peers, which are not part of the rule. */
function reasonOf(
  reason: Reason,
): Pick<ExplainedSide, 'reason' | 'group_id' | 'rule' | 'peer' | 'peer_gone' | 'expired'> {
  if (reason.kind === 'no-rule') {
    const expired = reason.expired?.flatMap(({ group, index, rule: { expires_at } }) =>
      expires_at === undefined ? [] : [{ group_id: group.id, rule: index, expires_at }],
    );
    const gone = reason.peerGone?.map(({ group, index, peer }) => ({ group_id: group.id, rule: index, peer }));
    return { reason: reason.kind, ...(expired && { expired }), ...(gone && { peer_gone: gone }) };
  }
  if (!('rule' in reason)) return { reason: reason.kind, ...('peer' in reason && peerOf(reason)) };
  const { members: _members, ...rule } = reason.rule as typeof reason.rule & { readonly members?: unknown };
  return { reason: reason.kind, group_id: reason.group.id, rule, ...peerOf(reason) };
}

const peerOf = ({ peer }: { readonly peer?: Peer }): Pick<ExplainedSide, 'peer'> =>
  peer === undefined ? {} : { peer };

/** The most void rules that one answer lists. */
const mostVoidRules = 100;

/** Rules that would admit what a guardrail forbids (reference 1.4 (7)). */
function voidRules(policy: EffectivePolicy, packet: Packet, fleet: PeerLookup): Pick<ExplainedSide, 'void_rules'> {
  const rules = admittingRules(policy, packet, { fleet })
    .slice(0, mostVoidRules)
    .map(({ group, index }) => ({ group_id: group.id, rule: index }));
  return rules.length === 0 ? {} : { void_rules: rules };
}

const endOf = ({ address, device }: FoundEndpoint): Explanation['from'] => ({
  address: printAddress(address.family, address.value),
  ...(device && { device_id: device.id, hostname: device.hostname }),
});
