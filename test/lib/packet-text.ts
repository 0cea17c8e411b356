/** Owns packets as people read them in a failing test. */
import { printAddress } from '../../src/policy/address.ts';
import type { Packet, Transport } from '../../src/policy/packet.ts';

function transportText(transport: Transport): string {
  switch (transport.kind) {
    case 'tcp':
    case 'udp':
      return `${transport.kind} to port ${transport.dport}`;
    case 'icmp':
    case 'icmpv6':
      return `${transport.kind} type ${transport.type}`;
    case 'other':
      return `protocol ${transport.protocol}`;
    default:
      return transport satisfies never;
  }
}

/** `inbound IPv4 from 10.0.0.1: tcp to port 443`. */
export function packetText({ direction, family, remote, transport, hopLimit, state }: Packet): string {
  const side = direction === 'inbound' ? 'from' : 'to';
  const extra = [hopLimit === undefined ? '' : `, hop limit ${hopLimit}`, state === undefined ? '' : `, ${state}`].join(
    '',
  );
  return `${direction} IPv${family} ${side} ${printAddress(family, remote)}: ${transportText(transport)}${extra}`;
}
