/**
 * Owns who may connect to a device and whom it may connect to, at one moment: what both ends admit, and the rules of both ends that do so. It is worked out in
 * steps, and asks each policy only about the addresses of the two devices.
 *
 *     const reach = new DeviceReach(organization, id);
 *     yield* reach.pairOf(otherId); // { inbound: traffic from the other device, outbound: traffic to it }
 */
import { both, either, isEvery, isNone, noPacket, packetsAt, type Packets } from '../../policy/difference/admitted.ts';
import { PortAlgebra } from '../../policy/difference/port-algebra.ts';
import { partsOf } from '../../policy/difference/rule-sweep.ts';
import type { PortSpan, TrafficProtocol } from '../../policy/difference/traffic.ts';
import { isClosed } from '../../policy/decide.ts';
import { noPorts } from '../../policy/digest/port-sets.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { isIsolationGroup } from '../../policy/isolation/isolation.ts';
import { isAnyPort, ruleAddresses } from '../../policy/match.ts';
import type { Direction, Family, Members, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { policiesOf } from '../device-policies.ts';
import type { Organization, OrganizationDevice } from '../organization.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { Address } from '../../policy/address.ts';

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

type Steps<T> = Generator<undefined, T, undefined>;

/** By the policy in its organization, which has one moment. */
const policies = new WeakMap<EffectivePolicy, EffectivePolicy>();

/** The device's policy at the moment of the organization; undefined where there is no such device, or a group of its list is not known. */
export function policyIn(organization: Organization, id: DeviceId): EffectivePolicy | undefined {
  const found = policiesOf(organization).of(id);
  if (found === undefined || 'missing' in found) return undefined;
  let known = policies.get(found);
  if (known === undefined) policies.set(found, (known = policyAt(found, organization.at).policy));
  return known;
}

/** A rule that admits something of an address. */
interface Match {
  readonly group: PolicyGroup;
  readonly index: number;
  readonly rule: StoredRule;
}

/** What a policy admits from or to one address, and its rules about that address. */
interface At {
  readonly packets: Packets;
  readonly matches: readonly Match[];
}

interface Endpoint {
  readonly policy: EffectivePolicy;
  readonly addresses: readonly Address[];
}

/** What was worked out about one policy, by direction and address. */
type KnownAt = Map<string, At>;

const families: readonly Family[] = [4, 6];

export class DeviceReach {
  readonly #organization: Organization;
  readonly #own: OrganizationDevice | undefined;
  readonly #policy: EffectivePolicy | undefined;
  readonly #ports = new PortAlgebra();
  readonly #known = new Map<EffectivePolicy, KnownAt>();
  /** Of the device's own rules, which are asked about every other device. */
  readonly #addresses = new Map<StoredRule, Members>();

  constructor(organization: Organization, id: DeviceId) {
    this.#organization = organization;
    this.#own = organization.devices.get(id);
    this.#policy = policyIn(organization, id);
  }

  /** Both directions between the device and another one; undefined where nothing is admitted or a policy is not known. */
  *pairOf(id: DeviceId): Steps<{ readonly inbound: PairReach; readonly outbound: PairReach } | undefined> {
    const [own, other] = [this.#own, this.#organization.devices.get(id)];
    if (own === undefined || other === undefined || own.id === id || this.#policy === undefined) return undefined;
    const policy = policyIn(this.#organization, id);
    if (policy === undefined) return undefined;
    const one = { addresses: own.identity.addresses, policy: this.#policy };
    const two = { addresses: other.identity.addresses, policy };
    // What the device's own policy says of another device's addresses is asked for this pair only.
    this.#known.delete(this.#policy);
    const inbound = yield* this.#connect(two, one);
    const outbound = yield* this.#connect(one, two);
    return inbound.traffic.length + outbound.traffic.length === 0 ? undefined : { inbound, outbound };
  }

  *#connect(source: Endpoint, target: Endpoint): Steps<PairReach> {
    const ports = this.#ports;
    const traffic: PairTraffic[] = [];
    const exchanged: Record<Family, Packets> = { 4: noPacket, 6: noPacket };
    for (const from of source.addresses) {
      for (const to of target.addresses) {
        if (from.family !== to.family) continue;
        const out = yield* this.#at(source.policy, 'outbound', to);
        if (isNone(out.packets)) continue;
        const into = yield* this.#at(target.policy, 'inbound', from);
        exchanged[to.family] = either(exchanged[to.family], both(out.packets, into.packets, ports), ports);
      }
    }
    traffic.push(...this.#inWords(exchanged));
    if (traffic.length === 0) return { traffic, source: [], target: [] };
    return {
      traffic,
      source: yield* this.#admittedBy(source.policy, 'outbound', traffic, target.addresses),
      target: yield* this.#admittedBy(target.policy, 'inbound', traffic, source.addresses),
    };
  }

  #inWords(exchanged: Readonly<Record<Family, Packets>>): readonly PairTraffic[] {
    if (families.some((family) => isEvery(exchanged[family]))) return [{ protocol: 'any' }];
    const all = either(exchanged[4], exchanged[6], this.#ports);
    const ported = (protocol: 'tcp' | 'udp'): readonly PairTraffic[] =>
      all[protocol] === noPorts ? [] : [{ protocol, ports: this.#ports.spans(all[protocol]) }];
    return [
      ...ported('tcp'),
      ...ported('udp'),
      ...(exchanged[4].echo ? [{ protocol: 'icmp' } as const] : []),
      ...(exchanged[6].echo ? [{ protocol: 'icmpv6' } as const] : []),
      ...(all.other ? [{ protocol: 'other' } as const] : []),
    ];
  }

  *#at(policy: EffectivePolicy, direction: Direction, { family, value }: Address): Steps<At> {
    let known = this.#known.get(policy);
    if (known === undefined) this.#known.set(policy, (known = new Map<string, At>()));
    const key = `${direction} ${family} ${value}`;
    let at = known.get(key);
    if (at !== undefined) return at;
    const matches: Match[] = [];
    const packets = yield* packetsAt(policy, { direction, family, value }, this.#ports, {
      ...(policy === this.#policy && { read: (rule: StoredRule) => this.#readOwn(rule) }),
      found: (group, index, rule) => matches.push({ group, index, rule }),
    });
    known.set(key, (at = { packets, matches }));
    return at;
  }

  #readOwn(rule: StoredRule): Members {
    let addresses = this.#addresses.get(rule);
    if (addresses === undefined) this.#addresses.set(rule, (addresses = ruleAddresses(rule)));
    return addresses;
  }

  /** Why the policy admits this traffic of these far ends. */
  *#admittedBy(
    policy: EffectivePolicy,
    direction: Direction,
    traffic: readonly PairTraffic[],
    far: readonly Address[],
  ): Steps<readonly Admission[]> {
    if (!isClosed(policy, direction)) return [{ by: 'open' }];
    const found = new Map<StoredRule, Match>();
    for (const address of far) {
      const { matches } = yield* this.#at(policy, direction, address);
      for (const match of matches)
        if (!found.has(match.rule) && traffic.some((one) => isAbout(match.rule, one))) found.set(match.rule, match);
    }
    const all = [...found.values()];
    if (all.some(({ group }) => isIsolationGroup(group))) return [{ by: 'isolation' }];
    const { admit } = partsOf(policy, direction);
    const places = new Map(admit === 'everything' ? [] : admit.map((group, place) => [group, place]));
    const placeOf = ({ group }: Match): number => places.get(group) ?? 0;
    return all
      .toSorted((a, b) => placeOf(a) - placeOf(b) || a.index - b.index)
      .map(({ group, index }) => ({ by: 'rule', group_id: group.id, index }));
  }
}

const allPorts: readonly PortSpan[] = [{ from: 0, to: 65_535 }];

/** Whether any of the ports is one of the rule's; both lists are ascending. */
function meets(rule: StoredRule, ports: readonly PortSpan[]): boolean {
  if (isAnyPort(rule)) return true;
  let [low, high] = [0, ports.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ports[middle] as PortSpan).to < rule.from_port) low = middle + 1;
    else high = middle;
  }
  return (ports[low]?.from ?? Number.POSITIVE_INFINITY) <= rule.to_port;
}

/** Whether the rule admits any of this traffic, by protocol and port. */
function isAbout(rule: StoredRule, { protocol, ports = allPorts }: PairTraffic): boolean {
  switch (rule.ip_protocol) {
    case 'tcp':
    case 'udp':
      return protocol === 'any' || (protocol === rule.ip_protocol && meets(rule, ports));
    case 'icmp':
    case 'icmpv6':
      return protocol === 'any' || protocol === rule.ip_protocol;
    case 'ipv4':
    case 'ipv6':
      return (
        isAnyPort(rule) || protocol === 'any' || ((protocol === 'tcp' || protocol === 'udp') && meets(rule, ports))
      );
    default:
      return rule.ip_protocol satisfies never;
  }
}
