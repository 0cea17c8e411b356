/** Owns reachability between devices, and between all devices of two labels: both ends must agree, the sender's outbound and the receiver's inbound. */
import type { Device } from '../../api/device.ts';
import { parseRange } from '../../policy/address.ts';
import { decide, type Decision } from '../../policy/decide.ts';
import type { EffectivePolicy, MissingGroups } from '../../policy/effective.ts';
import type { Packet, Transport } from '../../policy/packet.ts';
import type { Direction, Family } from '../../policy/rule.ts';

export interface Endpoint {
  readonly device: Device;
  readonly policy: EffectivePolicy | MissingGroups;
  readonly address: { readonly family: Family; readonly value: bigint } | undefined;
  /** Why its packets may meet other rules than these; undefined where they do not. */
  readonly shortcoming?: string | undefined;
}

/** The address at the driver interface; a prefix length behind it says nothing about the device itself. */
export function addressOf(device: Device): Endpoint['address'] {
  const range = parseRange(device.tunnel_ip.replace(/\/\d+$/, ''));
  return 'fault' in range || range.first !== range.last ? undefined : { family: range.family, value: range.first };
}

export interface Probe {
  readonly kind: 'tcp' | 'udp' | 'ping';
  readonly port: number;
}

/** What one end says about the connection. */
export interface Side {
  readonly decision: Decision;
  readonly packet: Packet;
  readonly policy: EffectivePolicy;
}

export type Reach =
  | { readonly kind: 'yes' | 'no'; readonly outbound: Side; readonly inbound: Side }
  | { readonly kind: 'unknown'; readonly why: string }
  | { readonly kind: 'self' };

const transportOf = ({ kind, port }: Probe, family: Family): Transport =>
  kind === 'ping' ? (family === 4 ? { kind: 'icmp', type: 8 } : { kind: 'icmpv6', type: 128 }) : { kind, dport: port };

export function reach(from: Endpoint, to: Endpoint, asked: Probe): Reach {
  if (from.device.id === to.device.id) return { kind: 'self' };
  if ('missing' in from.policy || 'missing' in to.policy) {
    return { kind: 'unknown', why: 'A group that applies here cannot be seen.' };
  }
  const source = from.address;
  const target = to.address;
  if (source === undefined || target === undefined) {
    const which = (source === undefined ? from : to).device;
    return { kind: 'unknown', why: `${which.hostname || 'A device'} has no tunnel address yet.` };
  }
  if (source.family !== target.family) {
    return { kind: 'unknown', why: 'One has an IPv4 address and the other an IPv6 address.' };
  }
  const side = (policy: EffectivePolicy, direction: Direction, remote: bigint): Side => {
    const packet = { direction, family: source.family, remote, transport: transportOf(asked, source.family) };
    return { packet, policy, decision: decide(policy, packet) };
  };
  const outbound = side(from.policy, 'outbound', target.value);
  const inbound = side(to.policy, 'inbound', source.value);
  const passes = [outbound, inbound].every(({ decision }) => decision.verdict === 'accept');
  return {
    kind: passes ? 'yes' : 'no',
    outbound,
    inbound,
  };
}

export interface Cluster {
  readonly key: string;
  readonly name: string;
  /** Places in the list of devices. A device may be in several clusters. */
  readonly members: readonly number[];
}

/** The largest first; devices without a label last. */
export function labelClusters(devices: readonly Device[]): readonly Cluster[] {
  const found = new Map<string, number[]>();
  for (const [index, { labels = [] }] of devices.entries()) {
    for (const label of labels.length === 0 ? [''] : labels) {
      const members = found.get(label) ?? [];
      members.push(index);
      found.set(label, members);
    }
  }
  return [...found]
    .map(([key, members]) => ({ key, name: key || 'no label', members }))
    .toSorted((a, b) => Number(a.key === '') - Number(b.key === '') || b.members.length - a.members.length);
}

/** Pairs of different devices: those that may connect, those whose answer is unknown, and all. */
export interface PairCount {
  readonly yes: number;
  readonly unknown: number;
  readonly total: number;
}

/**
 * Who may reach whom on one port, for thousands: each distinct policy is asked once about each address, and a pair of devices is then two
 * looks into that table.
 */
export class ReachTable {
  readonly #endpoints: readonly Endpoint[];
  readonly #policyOf: readonly number[];
  /** By policy, then by device: 1 where the policy lets it pass. */
  readonly #outbound: readonly Uint8Array[];
  readonly #inbound: readonly Uint8Array[];

  constructor(endpoints: readonly Endpoint[], probe: Probe) {
    this.#endpoints = endpoints;
    const policies = new Map<EffectivePolicy, number>();
    this.#policyOf = endpoints.map(({ policy }) => {
      if ('missing' in policy) return -1;
      const index = policies.get(policy) ?? policies.size;
      policies.set(policy, index);
      return index;
    });
    const verdicts = (direction: Direction): readonly Uint8Array[] =>
      [...policies.keys()].map((policy) =>
        Uint8Array.from(endpoints, ({ address }) =>
          address === undefined
            ? 0
            : Number(
                decide(policy, {
                  direction,
                  family: address.family,
                  remote: address.value,
                  transport: transportOf(probe, address.family),
                }).verdict === 'accept',
              ),
        ),
      );
    this.#outbound = verdicts('outbound');
    this.#inbound = verdicts('inbound');
  }

  count(from: Cluster, to: Cluster): PairCount {
    let [yes, unknown, total] = [0, 0, 0];
    for (const a of from.members) {
      const out = this.#outbound[this.#policyOf[a] ?? -1];
      const source = this.#endpoints[a]?.address?.family;
      for (const b of to.members) {
        if (a === b) continue;
        total += 1;
        const into = this.#inbound[this.#policyOf[b] ?? -1];
        const target = this.#endpoints[b]?.address?.family;
        if (out === undefined || into === undefined || source === undefined || source !== target) unknown += 1;
        else if (out[b] === 1 && into[a] === 1) yes += 1;
      }
    }
    return { yes, unknown, total };
  }
}
