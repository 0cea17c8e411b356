/** Owns packets as a verdict table writes them: `from('10.0.0.1').tcp(5432)`, `to('fd00::1').ping()`. */
import { parseAddress } from '../../src/policy/address.ts';
import type { Packet, Transport } from '../../src/policy/packet.ts';
import type { Direction } from '../../src/policy/rule.ts';

export interface PacketMaker {
  tcp(dport: number): Packet;
  udp(dport: number): Packet;
  /** An echo request of the address's own family. */
  ping(): Packet;
  /** An echo reply of the address's own family. */
  pong(): Packet;
  icmp(type: number): Packet;
  icmpv6(type: number, hopLimit?: number): Packet;
  /** Any other IP protocol, by number. */
  protocol(number: number): Packet;
}

function packets(direction: Direction, text: string): PacketMaker {
  const address = parseAddress(text);
  if ('fault' in address) throw new Error(`${text} is no address: ${address.reason}`);
  const { family, value: remote } = address;
  const make = (transport: Transport): Packet => ({ direction, family, remote, transport });
  const icmp = (v4: number, v6: number): Packet =>
    make(family === 4 ? { kind: 'icmp', type: v4 } : { kind: 'icmpv6', type: v6 });
  return {
    tcp: (dport) => make({ kind: 'tcp', dport }),
    udp: (dport) => make({ kind: 'udp', dport }),
    ping: () => icmp(8, 128),
    pong: () => icmp(0, 129),
    icmp: (type) => make({ kind: 'icmp', type }),
    icmpv6: (type, hopLimit = 64) => ({ ...make({ kind: 'icmpv6', type }), hopLimit }),
    protocol: (number) => make({ kind: 'other', protocol: number }),
  };
}

/** Packets that arrive from the address. */
export const from = (address: string): PacketMaker => packets('inbound', address);
/** Packets that leave for the address. */
export const to = (address: string): PacketMaker => packets('outbound', address);
