/** Owns reachability between devices: both ends must agree, the sender's outbound and the receiver's inbound. */
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

export const transportOf = ({ kind, port }: Probe, family: Family): Transport =>
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
