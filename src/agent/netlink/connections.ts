/** Owns tracked connections over netlink: listed, and forgotten one by one (ctnetlink, sock_diag). */
import { parseAddress, printAddress } from '../../policy/address.ts';
import type { Family } from '../../policy/rule.ts';
import type { Flow, LocalFlow, Tuple } from '../host/flows.ts';
import type { NetlinkChannel, Request } from './channel.ts';
import {
  addressBytes,
  addressValue,
  attribute,
  be16,
  concat,
  eachAttribute,
  le32,
  nested,
  u8,
  type Message,
} from './message.ts';

/** Protocols of netlink. */
const sockDiag = 4;
const netfilter = 12;

/** Types of messages: the subsystem of connection tracking, and what is asked of it. */
const conntrack = { get: 0x101, delete: 0x102 } as const;
/** Attributes of a connection, of a tuple, of its addresses, of its ports. */
const cta = { original: 1, reply: 2, zone: 18, filter: 25 } as const;
const tuple = { ip: 1, protocol: 2, zone: 3 } as const;
const ip = { source4: 1, destination4: 2, source6: 3, destination6: 4 } as const;
const proto = { number: 1, source: 2, destination: 3, id4: 4, type4: 5, code4: 6, id6: 7, type6: 8, code6: 9 } as const;
const filterBy = { original: 1, reply: 2 } as const;
const bySource = 1;

const familyNumber = (family: Family): number => (family === 4 ? 2 : 10);
/** The head of every message of netfilter: the family; nothing else that matters here. */
const head = (family: number): Uint8Array => Uint8Array.of(family, 0, 0, 0);

/** A connection with what the kernel knows it by. */
export interface KernelFlow extends Flow {
  /** Its original tuple and its zone, to the letter. */
  readonly key: Uint8Array;
}

interface ReadTuple {
  readonly tuple: Tuple;
  readonly family: Family;
  readonly protocol: number;
  readonly icmp: Flow['icmp'];
}

/** A number of one or two bytes in the order of the network. */
const number = (bytes: Uint8Array): number => bytes.reduce((value, byte) => value * 256 + byte, 0);

function textOf(bytes: Uint8Array): string {
  if (bytes.length !== 4) return printAddress(6, addressValue(bytes));
  return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`;
}

/** A tuple, or nothing where it has no two addresses. */
function readTuple(bytes: Uint8Array): ReadTuple | undefined {
  let [src, dst, family]: [string | undefined, string | undefined, Family] = [undefined, undefined, 4];
  let [protocol, sport, dport] = [Number.NaN, 0, 0];
  let [type, code, id]: [number | undefined, number, number] = [undefined, 0, 0];
  eachAttribute(bytes, (part, inner) => {
    if (part === tuple.ip) {
      eachAttribute(inner, (which, address) => {
        if (which === ip.source4 || which === ip.source6) src = textOf(address);
        if (which === ip.destination4 || which === ip.destination6) dst = textOf(address);
        family = which === ip.source4 || which === ip.destination4 ? 4 : 6;
      });
    }
    if (part === tuple.protocol) {
      eachAttribute(inner, (which, value) => {
        if (which === proto.number) protocol = number(value);
        else if (which === proto.source) sport = number(value);
        else if (which === proto.destination) dport = number(value);
        else if (which === proto.id4 || which === proto.id6) id = number(value);
        else if (which === proto.type4 || which === proto.type6) type = number(value);
        else if (which === proto.code4 || which === proto.code6) code = number(value);
      });
    }
  });
  if (src === undefined || dst === undefined || Number.isNaN(protocol)) return undefined;
  const icmp = type === undefined ? undefined : { type, code, id };
  return { tuple: { src, dst, sport, dport }, family, protocol, icmp };
}

/** The connection that a message of a listing tells of. */
export function readFlow({ payload }: Pick<Message, 'payload'>): KernelFlow | undefined {
  let [original, reply]: [ReadTuple | undefined, ReadTuple | undefined] = [undefined, undefined];
  const key: Uint8Array[] = [];
  eachAttribute(payload.subarray(4), (type, value) => {
    if (type === cta.original) {
      original = readTuple(value);
      key.push(attribute(cta.original | 0x8000, value));
    } else if (type === cta.reply) reply = readTuple(value);
    else if (type === cta.zone) key.push(attribute(cta.zone, value));
  });
  const [from, back] = [original as ReadTuple | undefined, reply as ReadTuple | undefined];
  if (from === undefined || back === undefined) return undefined;
  const { family, protocol, icmp } = from;
  return { family, protocol, original: from.tuple, reply: back.tuple, icmp, key: concat(key) };
}

/** Asks for the connections whose far end this is: who began them, or who answers them. Old kernels list all. */
function listRequest(remote: string, end: 'original' | 'reply'): Request | undefined {
  const address = parseAddress(remote);
  if ('fault' in address) return undefined;
  const { family, value } = address;
  const source = attribute(family === 4 ? ip.source4 : ip.source6, addressBytes(family, value));
  const flags = (name: 'original' | 'reply') => attribute(filterBy[name], le32(name === end ? bySource : 0));
  const payload = concat([
    head(familyNumber(family)),
    nested(cta[end], nested(tuple.ip, source)),
    nested(cta.filter, flags('original'), flags('reply')),
  ]);
  return { type: conntrack.get, payload };
}

/** Every tracked connection, or those with one of these far ends and perhaps others. */
export async function listConnections(
  channel: NetlinkChannel,
  remotes?: readonly string[],
): Promise<readonly KernelFlow[]> {
  const flows: KernelFlow[] = [];
  const seen = (message: Message): void => {
    const flow = readFlow(message);
    if (flow !== undefined) flows.push(flow);
  };
  if (remotes === undefined) await channel.dump(netfilter, { type: conntrack.get, payload: head(0) }, seen);
  else {
    for (const remote of remotes) {
      for (const end of ['original', 'reply'] as const) {
        const request = listRequest(remote, end);
        if (request !== undefined) await channel.dump(netfilter, request, seen);
      }
    }
  }
  return flows;
}

const gone = 2;
/** The socket has another cookie: it is another one by now. */
const stale = 116;

/** Makes the kernel forget these connections; one that has ended by itself meanwhile is none the worse. Answers with the first other error. */
export async function forgetConnections(
  channel: NetlinkChannel,
  flows: readonly KernelFlow[],
): Promise<number | undefined> {
  const numbers = await channel.send(
    netfilter,
    flows.map(({ family, key }) => ({
      type: conntrack.delete,
      payload: concat([head(familyNumber(family)), key]),
    })),
  );
  return numbers.find((errno) => errno !== 0 && errno !== gone);
}

const socketRequest = { get: 20, destroy: 21 } as const;
const tcp = 6;
const listening = 10;
const everyState = 0xffff_ffff;
const anyCookie = new Uint8Array(8).fill(0xff);

/** A socket by its addresses and ports: `struct inet_diag_req_v2`, up to the cookie. */
function socketOf(
  { flow: { family, original, reply }, direction, local, remote }: LocalFlow,
  interfaceIndex: number,
): Uint8Array | undefined {
  const [here, there] = direction === 'inbound' ? [reply.sport, original.sport] : [original.sport, reply.sport];
  const [near, far] = [parseAddress(local), parseAddress(remote)];
  if ('fault' in near || 'fault' in far) return undefined;
  const padded = (value: bigint): Uint8Array => {
    const room = new Uint8Array(16);
    room.set(addressBytes(family, value));
    return room;
  };
  const id = [be16(here), be16(there), padded(near.value), padded(far.value), le32(interfaceIndex)];
  return concat([u8(familyNumber(family)), u8(tcp), u8(0), u8(0), le32(everyState), ...id]);
}

/** The cookie of the socket that an answer tells of (`struct inet_diag_msg`); nothing where it listens. */
function cookieIn({ payload }: Message): Uint8Array | undefined {
  return payload.length < 52 || payload[1] === listening ? undefined : payload.slice(44, 52);
}

/**
 * Aborts the local sockets of these TCP connections. Answers with the first error, other than that there is none. Where a connection
 * has no socket any more, the kernel finds the one that listens at its port, which must live: so each socket is
 * looked at first, and ended by its cookie, which no other socket ever has.
 */
export async function abortSockets(
  channel: NetlinkChannel,
  flows: readonly LocalFlow[],
  interfaceIndex: number,
): Promise<number | undefined> {
  const sockets = flows
    .filter(({ flow, forwarded }) => flow.protocol === tcp && forwarded === undefined)
    .flatMap((flow) => socketOf(flow, interfaceIndex) ?? []);
  const cookies = new Map<number, Uint8Array>();
  const looked = await channel.send(
    sockDiag,
    sockets.map((socket) => ({ type: socketRequest.get, payload: concat([socket, anyCookie]) })),
    (index, message) => {
      const cookie = cookieIn(message);
      if (cookie !== undefined) cookies.set(index, cookie);
    },
  );
  const ended = await channel.send(
    sockDiag,
    [...cookies].map(([index, cookie]) => ({
      type: socketRequest.destroy,
      payload: concat([sockets[index] ?? new Uint8Array(0), cookie]),
    })),
  );
  return [...looked, ...ended].find((errno) => errno !== 0 && errno !== gone && errno !== stale);
}
