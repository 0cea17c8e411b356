/** Owns observed traffic in the words of the present policy: the names of both ends, and the rule that decides (docs/decisions/observed-traffic.md). */
import type { DeviceReport } from '../../api/device.ts';
import { surroundingsOf, type DeviceSurroundings } from '../../api/enforcement/surroundings.ts';
import type { Flow, FlowDecision } from '../../api/flows/flow.ts';
import { printAddress } from '../../policy/address.ts';
import { decide, type Decision, type DecideOptions } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { nearestRule } from '../../policy/flow/nearest-rule.ts';
import { hasPort, packetOf, protocolName } from '../../policy/flow/protocol.ts';
import type { DeviceId } from '../../policy/ids.ts';
import type { Packet } from '../../policy/packet.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { indexDevices } from '../../organization/fleet.ts';
import type { Organization } from '../../organization/organization.ts';
import type { EnforcementStatus } from '../convergence/contract.ts';
import type { StoredFlow } from '../store/data/flows.ts';

/** Devices that one far end is named after: an address may be that of many. */
const mostFarDevices = 10;

/** Without what was worked out for this moment only. */
function writtenRule({
  members: _members,
  expired: _expired,
  ...rule
}: StoredRule): Omit<StoredRule, 'members' | 'expired'> {
  return rule;
}

const referenceOf = ({
  group,
  index,
  rule,
}: {
  readonly group: PolicyGroup;
  readonly index: number;
  readonly rule: StoredRule;
}) => ({ group_id: group.id, group_name: group.name, index, rule: writtenRule(rule) });

function decisionOf(policy: EffectivePolicy, packet: Packet, decision: Decision, options: DecideOptions): FlowDecision {
  const { verdict, reason } = decision;
  const nearest = reason.kind === 'no-rule' ? nearestRule(policy, packet, options) : undefined;
  return {
    verdict: verdict === 'accept' ? 'admitted' : 'refused',
    reason: reason.kind,
    ...('rule' in reason && { rule: referenceOf(reason) }),
    ...(nearest && { nearest: { ...referenceOf(nearest), differs: nearest.differs } }),
  };
}

/** What the policy says of the traffic. A sum of ICMP may be echo or not: where only one of them agrees with the kernel, it was that one. */
function flowDecision(policy: EffectivePolicy, flow: StoredFlow, options: DecideOptions): FlowDecision {
  const judge = (packet: Packet) => ({ packet, decision: decide(policy, packet, options) });
  const echo = judge(packetOf(flow));
  const other = judge(packetOf(flow, { isEcho: false }));
  const wanted = flow.verdict === 'admitted' ? 'accept' : 'drop';
  const isOther = echo.decision.verdict !== wanted && other.decision.verdict === wanted;
  const { packet, decision } = isOther ? other : echo;
  return decisionOf(policy, packet, decision, options);
}

interface FlowSurroundings {
  readonly snapshot: Organization;
  /** Of the devices that observed the traffic. */
  readonly statuses: readonly EnforcementStatus[];
}

/** The traffic as it is shown, in the same order. Large policies make a page expensive: the caller can do other work between two flows. */
export function* explainFlows(
  flows: readonly StoredFlow[],
  { snapshot, statuses }: FlowSurroundings,
): Generator<void, readonly Flow[]> {
  yield* indexDevices(snapshot.devices.below);
  const policies = policiesOf(snapshot);
  const surroundings = new Map<DeviceId, DeviceSurroundings>(
    statuses.map(({ device_id, status }) => [device_id, surroundingsOf(status as DeviceReport | undefined)]),
  );
  const farDevices = new Map<string, Flow['far_devices']>();
  const namesOf = ({ family, far }: StoredFlow): Flow['far_devices'] => {
    const key = `${family} ${far}`;
    let named = farDevices.get(key);
    if (named === undefined) {
      const only = [{ first: far, last: far }];
      const { devices } = policies.fleet.nameSet(family === 4 ? { v4: only, v6: [] } : { v4: [], v6: only });
      named = devices
        .slice(0, mostFarDevices)
        .map(({ id, hostname, identity }) => ({ device_id: id, hostname, labels: [...identity.labels] }));
      farDevices.set(key, named);
    }
    return named;
  };
  const shown: Flow[] = [];
  for (const flow of flows) {
    const { device_id, since, until, direction, verdict, family, far, protocol, port, packets } = flow;
    const device = snapshot.devices.get(device_id);
    const policy = policies.of(device_id);
    const isKnown = policy !== undefined && !('missing' in policy);
    shown.push({
      device_id,
      ...(device && { hostname: device.hostname }),
      since,
      until,
      direction,
      verdict,
      far: printAddress(family, far),
      far_devices: namesOf(flow),
      protocol: protocolName(protocol),
      ...(hasPort(protocol) && { port }),
      packets,
      ...(isKnown && {
        decision: flowDecision(policy, flow, { ...surroundings.get(device_id), fleet: policies.fleet }),
      }),
    });
    yield;
  }
  return shown;
}
