/** Owns the names of IP protocols in observed traffic, and the packet that a sum of it stands for. */
import type { Packet, Transport } from '../packet.ts';
import type { Family } from '../rule.ts';

const numbers: Readonly<Record<string, number>> = { icmp: 1, tcp: 6, udp: 17, icmpv6: 58 };
const names = new Map(Object.entries(numbers).map(([name, number]) => [number, name]));

/** The number of a protocol that is written by name or number; undefined where the text is neither. */
export function protocolNumber(text: string): number | undefined {
  if (Object.hasOwn(numbers, text)) return numbers[text];
  return /^(0|[1-9][0-9]{0,2})$/.test(text) && Number(text) < 256 ? Number(text) : undefined;
}

export const protocolName = (number: number): string => names.get(number) ?? String(number);

/** TCP and UDP. */
export const hasPort = (protocol: number): boolean => protocol === 6 || protocol === 17;

interface ObservedTraffic {
  readonly direction: 'in' | 'out';
  readonly family: Family;
  readonly far: bigint;
  readonly protocol: number;
  readonly port: number;
}

function transportOf({ protocol, port, family }: ObservedTraffic, isEcho: boolean): Transport {
  if (protocol === 6) return { kind: 'tcp', dport: port };
  if (protocol === 17) return { kind: 'udp', dport: port };
  // Sums have no ICMP type. Rules know echo, and everything else.
  if (protocol === 1 && family === 4) return { kind: 'icmp', type: isEcho ? 8 : 3 };
  if (protocol === 58 && family === 6) return { kind: 'icmpv6', type: isEcho ? 128 : 1 };
  return { kind: 'other', protocol };
}

/** The packet that a sum stands for. ICMP is taken for echo unless told otherwise. */
export const packetOf = (traffic: ObservedTraffic, { isEcho = true }: { readonly isEcho?: boolean } = {}): Packet => ({
  direction: traffic.direction === 'in' ? 'inbound' : 'outbound',
  family: traffic.family,
  remote: traffic.far,
  transport: transportOf(traffic, isEcho),
});
