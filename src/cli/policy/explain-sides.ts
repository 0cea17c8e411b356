/** Owns what each side says of a connection between two addresses: the verdict, the rule that decides, and whether the device enforces it. */
import type { Device, DeviceStatus } from '../../api/device.ts';
import { surroundingsOf } from '../../api/enforcement/surroundings.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { organizationOf } from '../../organization/of-records.ts';
import { mismatchWords } from '../../client/words/mismatch.ts';
import { peerWord, ruleWords } from '../../client/words/rule.ts';
import { printable } from '../../policy/names/printable.ts';
import { admittingRules, decide, rulesOf, type Decision, type RuleReason } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { PeerLookup } from '../../policy/fleet/rule-peers.ts';
import type { Packet, Transport } from '../../policy/packet.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { peerNames, type PeerNames } from '../group/peer-text.ts';
import { deviceName } from '../lookup/device.ts';
import { doubtAbout, enforcementData, type Doubts } from './enforcement.ts';
import type { EndpointPair, ExplainEndpoint, TransportOf } from './explain-endpoints.ts';
import { knownPolicy } from './nft.ts';

/** What is known of the organization. */
export interface ExplainedPolicies {
  readonly policyOf: (device: Device) => EffectivePolicy;
  /** Absent for the past: only the present is known to be in force or not. */
  readonly statuses: ReadonlyMap<string, DeviceStatus> | undefined;
  readonly fleet: PeerLookup;
  readonly names: PeerNames;
}

export function explainedPolicies({
  groups,
  devices,
  statuses,
  at,
}: Pick<ExplainedPolicies, 'statuses'> & {
  readonly groups: readonly SecurityGroup[];
  readonly devices: readonly Device[];
  /** The moment, in milliseconds since 1970; absent for now. */
  readonly at: number | undefined;
}): ExplainedPolicies {
  const model = organizationOf(devices, groups);
  const policyOf = ofTheLastTwo((device: Device) => knownPolicy(device, model, at));
  return { policyOf, statuses, fleet: policiesOf(model).fleet, names: peerNames(devices) };
}

/** The policies of a large fleet are too much to keep. A connection has two ends. */
function ofTheLastTwo<Key, Value>(find: (key: Key) => Value): (key: Key) => Value {
  let kept: readonly (readonly [Key, Value])[] = [];
  return (key) => {
    const found = kept.find(([one]) => one === key) ?? ([key, find(key)] as const);
    kept = [found, ...kept.filter((one) => one !== found)].slice(0, 2);
    return found[1];
  };
}

export interface Side {
  readonly device: Device;
  readonly direction: Direction;
  readonly policy: EffectivePolicy;
  readonly decision: Decision;
  readonly packet: Packet;
  readonly names: PeerNames;
  /** What the other end is called. */
  readonly farEnd: string;
  /** Whether the same holds for connections that the device redirects or translates for containers. */
  readonly containers: 'guard' | 'ignore';
  readonly doubts: Doubts;
}

/** A pair of addresses with what the devices at both ends say of it. */
export interface JudgedPair extends EndpointPair {
  readonly transport: Transport;
  readonly sides: readonly Side[];
  readonly passes: boolean;
}

export function judge(
  { from, to }: EndpointPair,
  { transportOf, known }: { readonly transportOf: TransportOf; readonly known: ExplainedPolicies },
): JudgedPair {
  const transport = transportOf(to.address.family);
  const sides = [
    ...(from.device === undefined ? [] : [sideOf(from.device, 'outbound', to, transport, known)]),
    ...(to.device === undefined ? [] : [sideOf(to.device, 'inbound', from, transport, known)]),
  ];
  return { from, to, transport, sides, passes: sides.every(({ decision }) => decision.verdict === 'accept') };
}

function sideOf(
  device: Device,
  direction: Direction,
  { address: remote, name: farEnd }: ExplainEndpoint,
  transport: Transport,
  { policyOf, statuses, fleet, names }: ExplainedPolicies,
): Side {
  const policy = policyOf(device);
  const packet: Packet = { direction, family: remote.family, remote: remote.value, transport };
  const surroundings = surroundingsOf(statuses?.get(device.id)?.status);
  const { containers } = surroundings;
  const decision = decide(policy, packet, { ...surroundings, fleet });
  const doubts = statuses && doubtAbout(device, statuses);
  return { device, direction, policy, packet, containers, decision, names, farEnd, doubts };
}

const groupNames = ({ groups }: EffectivePolicy): string => groups.map(({ name }) => name).join(', ');

/** The rule, and the peer by which it names the far end. */
function ruleOf({ group, direction, rule, peer }: RuleReason<string>, names: PeerNames): string {
  const by = peer === undefined ? '' : `, by ${peerWord(peer, names)}`;
  return `rule \`${ruleWords(direction, rule, names)}\` of group ${group.name}${by}`;
}

const shownRules = 10;

/** The reason in words a person can act on. */
export function reasonWords({
  decision: { reason },
  direction,
  policy,
  packet,
  names,
  farEnd,
}: Side): readonly string[] {
  switch (reason.kind) {
    case 'rule': {
      const others = admittingRules(policy, packet).length - 1;
      const more = others === 0 ? '' : ` (and by ${others} more)`;
      return [`${ruleOf(reason, names)}${more}`];
    }
    case 'forbid':
      return [
        `the guardrail ${reason.group.name} forbids it, regardless of other groups: ${ruleOf(reason, names)}`,
        ...admittingRules(policy, packet)
          .slice(0, shownRules)
          .map((rule) => `void: ${ruleOf(rule, names)}`),
      ];
    case 'require':
      return [`the guardrail ${reason.group.name} requires it, regardless of other groups: ${ruleOf(reason, names)}`];
    case 'open':
      return [`no outbound rules, so all traffic may leave (${groupNames(policy)})`];
    case 'no-rule': {
      const expired = (reason.expired ?? []).map((each) => `${ruleOf(each, names)} would admit it, but it has expired`);
      const rules = policy.groups.flatMap((group) =>
        rulesOf(group, direction).map((rule) => {
          const why = mismatchWords(rule, packet, farEnd);
          return `${group.name}: ${ruleWords(direction, rule, names)}${why === undefined ? '' : `: ${why}`}`;
        }),
      );
      const word = direction === 'inbound' ? 'inbound' : 'outbound';
      return [
        `no ${word} rule of ${groupNames(policy)} admits it`,
        ...expired.slice(0, shownRules),
        ...(rules.length === 0 ? [`there are no ${word} rules`] : rules.slice(0, shownRules)),
        ...(rules.length > shownRules ? [`… and ${rules.length - shownRules} more`] : []),
        ...(reason.peerGone ?? []).map(
          ({ group, peer }) => `${group.name}: ${peerWord(peer)} no longer exists, so the rule admits no device`,
        ),
      ];
    }
    case 'isolated':
      return ['this device is isolated'];
    case 'far-end-isolated':
      return ['the other device is isolated'];
    case 'isolation-allows':
      return [
        `this device is isolated, and its isolation allows ${reason.peer === undefined ? 'this' : peerWord(reason.peer, names)}`,
      ];
    case 'connection':
      return [`part of a connection that was admitted`];
    case 'discovery':
      return ['neighbour discovery'];
    case 'server':
      return ['admitted as traffic between the agent and its server'];
    case 'forwarded':
      return ['forwarded traffic'];
    default:
      return reason satisfies never;
  }
}

/** What of a container differs, or where one is easily overlooked. */
export function containersWords(side: Side): readonly string[] {
  const { device, direction, decision } = side;
  const name = printable(deviceName(device));
  if (side.containers === 'ignore') return [`The rules do not apply to containers on ${name}: its agent ignores them.`];
  if (decision.reason.kind === 'server')
    return [`This does not include containers on ${name}: only the agent itself may use it.`];
  if (decision.verdict === 'accept') return [];
  // An echo request has no port that a container could publish.
  if (direction === 'inbound' && !('dport' in side.packet.transport)) return [];
  return direction === 'inbound'
    ? [`The same applies to a published container port on ${name}; the rules see the published port.`]
    : [`The same applies to a container on ${name} whose address is translated.`];
}

/** Without the addresses that its peers have at this moment: they are no part of the rule. */
const ruleData = (rule: StoredRule): object =>
  Object.fromEntries(Object.entries(rule).filter(([name]) => name !== 'members' && name !== 'expired'));

export function sideData(side: Side): object {
  const { device, direction, decision, policy, packet } = side;
  const { reason } = decision;
  return {
    device_id: device.id,
    direction,
    verdict: decision.verdict === 'accept' ? 'allowed' : 'refused',
    reason: reason.kind,
    containers: side.containers,
    groups: policy.groups.map(({ id }) => id),
    ...('rule' in reason && { group_id: reason.group.id, rule: ruleData(reason.rule) }),
    ...('peer' in reason && reason.peer && { peer: reason.peer }),
    ...(reason.kind === 'forbid' && {
      void_rules: admittingRules(policy, packet).map(({ group, index }) => ({ group_id: group.id, rule: index })),
    }),
    ...('expired' in reason && {
      expired: reason.expired?.map(({ group, index, rule }) => ({
        group_id: group.id,
        rule: index,
        expires_at: rule.expires_at,
      })),
    }),
    ...('peerGone' in reason && {
      peer_gone: reason.peerGone?.map(({ group, index, peer }) => ({ group_id: group.id, rule: index, peer })),
    }),
    ...enforcementData(side.doubts),
  };
}
