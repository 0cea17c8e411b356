/** Owns probe packets as bytes: a packet of the policy core, written down header by header, as it goes on the wire. */
import type { Packet, Transport } from '../../src/policy/packet.ts';
import type { Family } from '../../src/policy/rule.ts';

/** Marks a probe (as DSCP), so that nothing else on the cable is ever taken for one. */
export const probeMark = 42;

const defaultHopLimit = 64;

/** What the policy must not look at, varied to prove that it does not. */
export interface Shape {
  readonly sport: number;
  /** TCP flags; a SYN unless said otherwise. */
  readonly flags: number;
  /** An IPv4 option, or an IPv6 destination-options header, is between the addresses and the transport. */
  readonly options: boolean;
  /** Comes in two fragments, the first of which holds no more than eight bytes of the transport. */
  readonly fragmented?: boolean;
  /** What follows the checksum of an ICMP error: four bytes of its own, then the packet that it is about. */
  readonly about?: Buffer;
  readonly code?: number;
}

export const plainShape: Shape = { sport: 40_000, flags: 0x02, options: false };

export interface Probe {
  readonly packet: Packet;
  /** 1–65535: names the probe in the recorder. */
  readonly id: number;
  /** The device's own address. */
  readonly local: bigint;
  readonly shape: Shape;
}

const protocolNumber = (transport: Transport): number => {
  switch (transport.kind) {
    case 'tcp':
      return 6;
    case 'udp':
      return 17;
    case 'icmp':
      return 1;
    case 'icmpv6':
      return 58;
    case 'other':
      return transport.protocol;
    default:
      return transport satisfies never;
  }
};

export const addressBytes = (family: Family, address: bigint): Buffer =>
  Buffer.from(address.toString(16).padStart(family === 4 ? 8 : 32, '0'), 'hex');

/** The whole packet, network header included; its fragments in order, if it is to come in such. */
export function encodeProbe(probe: Probe): Buffer[] {
  const { packet, local, shape } = probe;
  const remote = addressBytes(packet.family, packet.remote);
  const own = addressBytes(packet.family, local);
  const [source, destination] = packet.direction === 'inbound' ? [remote, own] : [own, remote];
  const payload = transportBytes(packet.transport, shape, Buffer.concat([source, destination]));
  const write = packet.family === 4 ? ipv4 : ipv6;
  const ends = { source, destination };
  if (shape.fragmented !== true) return [write(probe, ends, payload)];
  const of = (fragmentedPackets += 1);
  return [
    write(probe, ends, payload.subarray(0, fragmentUnit), { of, offset: 0, more: true }),
    write(probe, ends, payload.subarray(fragmentUnit), { of, offset: 1, more: false }),
  ];
}

/** Fragments are counted in units of eight bytes. */
const fragmentUnit = 8;

interface PacketAddresses {
  readonly source: Buffer;
  readonly destination: Buffer;
}

/** How many this process has made so far. */
let fragmentedPackets = 0;

interface Fragment {
  /** The number of its packet, which no other has: of packets with the number of an earlier one, the kernel did not put all together. */
  readonly of: number;
  readonly offset: number;
  readonly more: boolean;
}

function ipv4({ id, shape, packet }: Probe, ends: PacketAddresses, payload: Buffer, fragment?: Fragment): Buffer {
  const options = shape.options ? Buffer.from([1, 1, 1, 0]) : Buffer.alloc(0); // no-operation ×3, end of list
  const header = Buffer.alloc(20);
  header.writeUInt8(0x40 | (5 + options.length / 4), 0);
  header.writeUInt8(probeMark << 2, 1);
  header.writeUInt16BE(header.length + options.length + payload.length, 2);
  header.writeUInt16BE(id, 4);
  if (fragment !== undefined) header.writeUInt16BE((fragment.more ? 0x2000 : 0) | fragment.offset, 6);
  header.writeUInt8(packet.hopLimit ?? defaultHopLimit, 8);
  header.writeUInt8(protocolNumber(packet.transport), 9);
  ends.source.copy(header, 12);
  ends.destination.copy(header, 16);
  const full = Buffer.concat([header, options]);
  full.writeUInt16BE(checksum(full), 10);
  return Buffer.concat([full, payload]);
}

const fragmentHeader = 44;
const destinationOptions = 60;

function ipv6({ id, shape, packet }: Probe, ends: PacketAddresses, payload: Buffer, fragment?: Fragment): Buffer {
  const extensions: Buffer[] = [];
  let next = protocolNumber(packet.transport);
  if (shape.options && (fragment?.offset ?? 0) === 0) {
    extensions.unshift(Buffer.from([next, 0, 1, 4, 0, 0, 0, 0])); // padding of 4 bytes
    next = destinationOptions;
  }
  if (fragment !== undefined) {
    // The options travel in the first fragment, before what is counted as its payload.
    const before = shape.options ? 1 : 0;
    const bytes = Buffer.alloc(8);
    bytes.writeUInt8(shape.options ? destinationOptions : next, 0);
    bytes.writeUInt16BE(((fragment.offset === 0 ? 0 : fragment.offset + before) << 3) | (fragment.more ? 1 : 0), 2);
    bytes.writeUInt32BE(fragment.of, 4);
    extensions.unshift(bytes);
    next = fragmentHeader;
  }
  const length = extensions.reduce((sum, bytes) => sum + bytes.length, payload.length);
  const header = Buffer.alloc(40);
  header.writeUInt32BE((0x6000_0000 | (probeMark << 22) | id) >>> 0, 0);
  header.writeUInt16BE(length, 4);
  header.writeUInt8(next, 6);
  header.writeUInt8(packet.hopLimit ?? defaultHopLimit, 7);
  ends.source.copy(header, 8);
  ends.destination.copy(header, 24);
  return Buffer.concat([header, ...extensions, payload]);
}

function transportBytes(transport: Transport, shape: Shape, addresses: Buffer): Buffer {
  switch (transport.kind) {
    case 'tcp': {
      const bytes = Buffer.alloc(20);
      bytes.writeUInt16BE(shape.sport, 0);
      bytes.writeUInt16BE(transport.dport, 2);
      bytes.writeUInt32BE(0x1234_5678, 4);
      bytes.writeUInt8(0x50, 12);
      bytes.writeUInt8(shape.flags, 13);
      bytes.writeUInt16BE(64_240, 14);
      bytes.writeUInt16BE(checksum(pseudo(addresses, 6, bytes)), 16);
      return bytes;
    }
    case 'udp': {
      const bytes = Buffer.alloc(12);
      bytes.writeUInt16BE(shape.sport, 0);
      bytes.writeUInt16BE(transport.dport, 2);
      bytes.writeUInt16BE(bytes.length, 4);
      bytes.writeUInt16BE(checksum(pseudo(addresses, 17, bytes)) || 0xffff, 6);
      return bytes;
    }
    case 'icmp':
    case 'icmpv6': {
      const bytes = Buffer.concat([Buffer.alloc(4), shape.about ?? echoBody(shape.sport)]);
      bytes.writeUInt8(transport.type, 0);
      bytes.writeUInt8(shape.code ?? 0, 1);
      bytes.writeUInt16BE(checksum(transport.kind === 'icmp' ? bytes : pseudo(addresses, 58, bytes)), 2);
      return bytes;
    }
    case 'other': {
      // Reads as ports in every protocol that has them at this place (SCTP, DCCP, UDP-Lite): these must not count.
      const bytes = Buffer.alloc(32);
      bytes.writeUInt16BE(shape.sport, 0);
      bytes.writeUInt16BE(443, 2);
      return bytes;
    }
    default:
      return transport satisfies never;
  }
}

/** Identifier and sequence number of an echo, then some data. */
function echoBody(identifier: number): Buffer {
  const body = Buffer.alloc(28);
  body.writeUInt16BE(identifier, 0);
  body.writeUInt16BE(1, 2);
  return body;
}

export function pseudo(addresses: Buffer, protocol: number, payload: Buffer): Buffer {
  const tail = Buffer.alloc(8);
  tail.writeUInt32BE(payload.length, 0);
  tail.writeUInt32BE(protocol, 4);
  return Buffer.concat([addresses, tail, payload]);
}

/** The internet checksum (RFC 1071). */
export function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 2) sum += (bytes[i] ?? 0) * 256 + (bytes[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x1_0000);
  return ~sum & 0xffff;
}
