/**
 * Owns who may connect to a device and whom it may connect to, at one moment: what both ends admit, and the rules of both ends that do so.
 *
 *     const reach = new DeviceReach(snapshot, id);
 *     reach.pairOf(otherId); // { inbound: traffic from the other device, outbound: traffic to it }
 */
import { canonicalize } from '../canonicalize.ts';
import { isClosed, rulesOf } from '../decide.ts';
import { policyDifference } from '../difference/policy-difference.ts';
import type { PortSpan, TrafficProtocol, TrafficSet } from '../difference/traffic.ts';
import type { EffectivePolicy } from '../effective.ts';
import type { DeviceId, GroupId } from '../ids.ts';
import { isolationGroupId, withIsolation } from '../isolation/isolation.ts';
import { isAnyPort, ruleAddresses } from '../match.ts';
import { hasAddress } from '../range.ts';
import type { Direction, StoredRule } from '../rule.ts';
import { policiesOf } from '../snapshot/device-policies.ts';
import type { PolicySnapshot, SnapshotDevice } from '../snapshot/snapshot.ts';
import { policyAt } from '../time/policy-at.ts';
import type { Address } from '../address.ts';

/** What two devices may exchange: disjoint, by protocol. */
export interface PairTraffic {
  readonly protocol: TrafficProtocol;
  /** Only with TCP and UDP. */
  readonly ports?: readonly PortSpan[];
}

/** Why one end admits it. */
export type Admission =
  | { readonly by: 'rule'; readonly group_id: GroupId; readonly index: number }
  /** No group of the device has outbound rules. */
  | { readonly by: 'open' }
  /** The device is isolated, and its isolation allows the other end. */
  | { readonly by: 'isolation' };

/** One direction between two devices. */
export interface PairReach {
  readonly traffic: readonly PairTraffic[];
  /** By the end that opens the connection, and by the end that accepts it. */
  readonly source: readonly Admission[];
  readonly target: readonly Admission[];
}

/** A device's policy at the moment of the snapshot, and what it admits. */
export interface DeviceAdmission {
  readonly policy: EffectivePolicy;
  readonly inbound: TrafficSet;
  readonly outbound: TrafficSet;
}

/** By the policy in its snapshot, which has one moment. */
const admissions = new WeakMap<EffectivePolicy, DeviceAdmission>();

/** What the device admits; undefined where there is no such device, or a group of its list is not known. */
export function admissionOf(snapshot: PolicySnapshot, id: DeviceId): DeviceAdmission | undefined {
  const found = policiesOf(snapshot).of(id);
  if (found === undefined || 'missing' in found) return undefined;
  let known = admissions.get(found);
  if (known === undefined) {
    const { policy } = policyAt(found, snapshot.at);
    const { inbound, outbound } = policyDifference(undefined, canonicalize(policy));
    admissions.set(found, (known = { policy, inbound: inbound.gained, outbound: outbound.gained }));
  }
  return known;
}

const holds = (
  { v4, v6 }: { readonly v4: TrafficSet[number]['v4']; readonly v6: TrafficSet[number]['v6'] },
  { family, value }: Address,
) => hasAddress(family === 4 ? v4 : v6, value);

/** The traffic of the set with this far end, without its addresses. */
const withFarEnd = (set: TrafficSet, far: Address): readonly PairTraffic[] =>
  set.flatMap((traffic) =>
    holds(traffic, far) ? [{ protocol: traffic.protocol, ...(traffic.ports && { ports: traffic.ports }) }] : [],
  );

const allPorts: readonly PortSpan[] = [{ from: 0, to: 65_535 }];

function commonPorts(a: readonly PortSpan[], b: readonly PortSpan[]): readonly PortSpan[] {
  const common = a.flatMap((one) =>
    b.flatMap((other) => {
      const [from, to] = [Math.max(one.from, other.from), Math.min(one.to, other.to)];
      return from <= to ? [{ from, to }] : [];
    }),
  );
  return common.toSorted((x, y) => x.from - y.from);
}

function commonTraffic(a: readonly PairTraffic[], b: readonly PairTraffic[]): readonly PairTraffic[] {
  return a.flatMap((one) =>
    b.flatMap((other): readonly PairTraffic[] => {
      if (one.protocol === 'any') return [other];
      if (other.protocol === 'any') return [one];
      if (one.protocol !== other.protocol) return [];
      if (one.ports === undefined || other.ports === undefined) return [one];
      const ports = commonPorts(one.ports, other.ports);
      return ports.length === 0 ? [] : [{ protocol: one.protocol, ports }];
    }),
  );
}

const protocols = ['tcp', 'udp', 'icmp', 'icmpv6', 'other'] as const satisfies readonly TrafficProtocol[];

function mergePorts(spans: readonly PortSpan[]): readonly PortSpan[] {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of spans.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last.to + 1) last.to = Math.max(last.to, to);
    else merged.push({ from, to });
  }
  return merged;
}

/** Of several pairs of addresses, each protocol once. */
function unite(all: readonly PairTraffic[]): readonly PairTraffic[] {
  if (all.some(({ protocol }) => protocol === 'any')) return [{ protocol: 'any' }];
  return protocols.flatMap((protocol): readonly PairTraffic[] => {
    const same = all.filter((one) => one.protocol === protocol);
    if (same.length === 0) return [];
    if (protocol !== 'tcp' && protocol !== 'udp') return [{ protocol }];
    return [{ protocol, ports: mergePorts(same.flatMap(({ ports = allPorts }) => ports)) }];
  });
}

/** Whether the rule admits any of this traffic, by protocol and port. */
function isAbout(rule: StoredRule, { protocol, ports = allPorts }: PairTraffic): boolean {
  const meets = isAnyPort(rule) || ports.some(({ from, to }) => rule.from_port <= to && from <= rule.to_port);
  switch (rule.ip_protocol) {
    case 'tcp':
    case 'udp':
      return protocol === 'any' || (protocol === rule.ip_protocol && meets);
    case 'icmp':
    case 'icmpv6':
      return protocol === 'any' || protocol === rule.ip_protocol;
    case 'ipv4':
    case 'ipv6':
      return isAnyPort(rule) || protocol === 'any' || ((protocol === 'tcp' || protocol === 'udp') && meets);
    default:
      return rule.ip_protocol satisfies never;
  }
}

/** Why the policy admits this traffic of these far ends. */
function admittedBy(
  effective: EffectivePolicy,
  direction: Direction,
  traffic: readonly PairTraffic[],
  far: readonly Address[],
): readonly Admission[] {
  const policy = withIsolation(effective);
  if (!isClosed(policy, direction)) return [{ by: 'open' }];
  const found: Admission[] = [];
  for (const group of [...(policy.guardrails?.require ?? []), ...policy.groups]) {
    for (const [index, rule] of rulesOf(group, direction).entries()) {
      if (rule.expired === true || !traffic.some((one) => isAbout(rule, one))) continue;
      const addresses = ruleAddresses(rule);
      if (!far.some((one) => holds(addresses, one))) continue;
      if (group.id === isolationGroupId) return [{ by: 'isolation' }];
      found.push({ by: 'rule', group_id: group.id, index });
    }
  }
  return found;
}

export class DeviceReach {
  readonly #snapshot: PolicySnapshot;
  readonly #own: SnapshotDevice | undefined;
  readonly #admission: DeviceAdmission | undefined;

  constructor(snapshot: PolicySnapshot, id: DeviceId) {
    this.#snapshot = snapshot;
    this.#own = snapshot.devices.get(id);
    this.#admission = admissionOf(snapshot, id);
  }

  /** Both directions between the device and another one; undefined where nothing is admitted or a policy is not known. */
  pairOf(id: DeviceId): { readonly inbound: PairReach; readonly outbound: PairReach } | undefined {
    const [own, other] = [this.#own, this.#snapshot.devices.get(id)];
    if (own === undefined || other === undefined || own.id === id || this.#admission === undefined) return undefined;
    const admission = admissionOf(this.#snapshot, id);
    if (admission === undefined) return undefined;
    const one = { addresses: own.identity.addresses, ...this.#admission };
    const two = { addresses: other.identity.addresses, ...admission };
    const [inbound, outbound] = [connect(two, one), connect(one, two)];
    return inbound.traffic.length + outbound.traffic.length === 0 ? undefined : { inbound, outbound };
  }
}

type Endpoint = DeviceAdmission & { readonly addresses: readonly Address[] };

function connect(source: Endpoint, target: Endpoint): PairReach {
  const traffic = unite(
    source.addresses.flatMap((from) =>
      target.addresses.flatMap((to) =>
        from.family === to.family
          ? commonTraffic(withFarEnd(source.outbound, to), withFarEnd(target.inbound, from))
          : [],
      ),
    ),
  );
  if (traffic.length === 0) return { traffic, source: [], target: [] };
  return {
    traffic,
    source: admittedBy(source.policy, 'outbound', traffic, target.addresses),
    target: admittedBy(target.policy, 'inbound', traffic, source.addresses),
  };
}
