/** Owns tracked connections over netlink (ctnetlink): it lists them, and deletes single ones. */
import { parseAddress, printAddress } from '../../policy/address.ts';
import type { Family } from '../../policy/rule.ts';
import type { FarEnd } from '../host/flow-table.ts';
import { isOpenIn, type Flow, type Tuple } from '../host/flows.ts';
import type { NetlinkChannel, Request } from './channel.ts';
import {
  addressBytes,
  addressValue,
  aligned,
  attribute,
  attributeEnd,
  attributeType,
  be16,
  concat,
  familyNumber,
  hasAttribute,
  le32,
  nested,
  payloadAt,
  putNested,
  u8,
  walkAttributes,
  type Message,
} from './message.ts';

/** The protocol of netlink. */
const netfilter = 12;

/** Types of messages: the subsystem of connection tracking, and what is asked of it. */
const conntrack = { get: 0x101, delete: 0x102 } as const;
/** Attributes of a connection, of a tuple, of its addresses, of its ports. */
const cta = { original: 1, reply: 2, status: 3, state: 4, help: 5, master: 14, zone: 18, filter: 25 } as const;
/** Bits of the status. */
const [answered, assured] = [2, 4];
/** Where the state of a TCP connection stands, the one in which it is open, and those after a side has ended it. */
const tcp = { state: 1, inState: 1, established: 3, firstEnding: 4, lastEnding: 8 } as const;
const tuple = { ip: 1, protocol: 2, zone: 3 } as const;
const ip = { source4: 1, destination4: 2, source6: 3, destination6: 4 } as const;
const proto = { number: 1, source: 2, destination: 3, id4: 4, type4: 5, code4: 6, id6: 7, type6: 8, code6: 9 } as const;
const filterBy = { original: 1, reply: 2 } as const;
const bySource = 1;

/** The head of every message of netfilter: the family; nothing else that matters here. */
const head = (family: number): Uint8Array => Uint8Array.of(family, 0, 0, 0);

/** A connection with what the kernel knows it by. */
export interface KernelFlow extends Flow {
  /** The payload of a message about it: its original tuple and its zone, to the letter. */
  readonly key: Uint8Array;
}

interface ReadTuple {
  readonly tuple: Tuple;
  readonly family: Family;
  readonly protocol: number;
  readonly icmp: Flow['icmp'];
}

/** A number of one or two bytes in the order of the network. */
const numberAt = (bytes: Uint8Array, from: number, to: number): number =>
  to - from === 2 ? (bytes[from] ?? 0) * 256 + (bytes[from + 1] ?? 0) : (bytes[from] ?? 0);

/** The texts of addresses that a listing has shown: many connections have an end in common. */
type Texts = Map<number, string>;
const mostTexts = 50_000;

function addressAt(bytes: Uint8Array, from: number, to: number, texts: Texts): string {
  if (to - from !== 4) return printAddress(6, addressValue(bytes.subarray(from, to)));
  const [a = 0, b = 0, c = 0, d = 0] = [bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]];
  const number = (a << 24) | (b << 16) | (c << 8) | d;
  const known = texts.get(number);
  if (known !== undefined) return known;
  const text = `${a}.${b}.${c}.${d}`;
  if (texts.size === mostTexts) texts.clear();
  texts.set(number, text);
  return text;
}

/** The source and the destination in these attributes, as far as they are there. */
function readAddresses(bytes: Uint8Array, begin: number, to: number, texts: Texts) {
  let [src, dst, family]: [string | undefined, string | undefined, Family] = [undefined, undefined, 4];
  let end = begin;
  for (let at = begin; hasAttribute(at, to); at = aligned(end)) {
    end = attributeEnd(bytes, at, to);
    const which = attributeType(bytes, at);
    if (which === ip.source4 || which === ip.source6) src = addressAt(bytes, payloadAt(at), end, texts);
    else if (which === ip.destination4 || which === ip.destination6) dst = addressAt(bytes, payloadAt(at), end, texts);
    family = which === ip.source4 || which === ip.destination4 ? 4 : 6;
  }
  return { src, dst, family };
}

/** The protocol in these attributes, with its ports or what a message of ICMP has. */
function readProtocol(bytes: Uint8Array, begin: number, to: number) {
  let [protocol, sport, dport] = [Number.NaN, 0, 0];
  let [type, code, id]: [number | undefined, number, number] = [undefined, 0, 0];
  let end = begin;
  for (let at = begin; hasAttribute(at, to); at = aligned(end)) {
    end = attributeEnd(bytes, at, to);
    const which = attributeType(bytes, at);
    const value = numberAt(bytes, payloadAt(at), end);
    if (which === proto.number) protocol = value;
    else if (which === proto.source) sport = value;
    else if (which === proto.destination) dport = value;
    else if (which === proto.id4 || which === proto.id6) id = value;
    else if (which === proto.type4 || which === proto.type6) type = value;
    else if (which === proto.code4 || which === proto.code6) code = value;
  }
  return { protocol, sport, dport, icmp: type === undefined ? undefined : { type, code, id } };
}

/** A tuple, or nothing where it has no two addresses. */
function readTuple(bytes: Uint8Array, begin: number, to: number, texts: Texts): ReadTuple | undefined {
  let addresses: ReturnType<typeof readAddresses> | undefined;
  let transport: ReturnType<typeof readProtocol> | undefined;
  let end = begin;
  for (let at = begin; hasAttribute(at, to); at = aligned(end)) {
    end = attributeEnd(bytes, at, to);
    const part = attributeType(bytes, at);
    if (part === tuple.ip) addresses = readAddresses(bytes, payloadAt(at), end, texts);
    else if (part === tuple.protocol) transport = readProtocol(bytes, payloadAt(at), end);
  }
  if (addresses === undefined || transport === undefined || Number.isNaN(transport.protocol)) return undefined;
  const { src, dst, family } = addresses;
  const { protocol, sport, dport, icmp } = transport;
  if (src === undefined || dst === undefined) return undefined;
  return { tuple: { src, dst, sport, dport }, family, protocol, icmp };
}

/** The state of a TCP connection in these attributes; 0 where it has none. */
function tcpStateIn(bytes: Uint8Array, from: number, to: number): number {
  let state = 0;
  walkAttributes(bytes, from, to, (type, begin, end) => {
    if (type !== tcp.state) return;
    walkAttributes(bytes, begin, end, (inner, at) => {
      if (inner === tcp.inState) state = bytes[at] ?? 0;
    });
  });
  return state;
}

const headSize = 4;

/** Reads the connection from one message of a listing. */
function readFlow({ payload }: Message, texts: Texts): KernelFlow | undefined {
  let [original, reply, master]: (ReadTuple | undefined)[] = [];
  let [key, zone]: [Uint8Array | undefined, Uint8Array | undefined] = [undefined, undefined];
  let [status, state, hasHelper] = [0, 0, false];
  const to = payload.length;
  let end = headSize;
  for (let at = headSize; hasAttribute(at, to); at = aligned(end)) {
    end = attributeEnd(payload, at, to);
    const type = attributeType(payload, at);
    if (type === cta.original) {
      original = readTuple(payload, payloadAt(at), end, texts);
      key = new Uint8Array(headSize + aligned(end - at));
      key[0] = payload[0] ?? 0;
      putNested(key, headSize, payload, at, end);
    } else if (type === cta.reply) reply = readTuple(payload, payloadAt(at), end, texts);
    else if (type === cta.status) status = payload[end - 1] ?? 0;
    else if (type === cta.state) state = tcpStateIn(payload, payloadAt(at), end);
    else if (type === cta.help) hasHelper = true;
    else if (type === cta.master) master = readTuple(payload, payloadAt(at), end, texts);
    else if (type === cta.zone) zone = attribute(cta.zone, payload.subarray(payloadAt(at), end));
  }
  if (original === undefined || reply === undefined || key === undefined) return undefined;
  const { family, protocol, icmp, tuple: began } = original;
  const isEstablished = state === tcp.established;
  const isEnding = state >= tcp.firstEnding && state <= tcp.lastEnding;
  const [isAnswered, isAssured] = [(status & answered) !== 0, (status & assured) !== 0];
  return {
    family,
    protocol,
    original: began,
    reply: reply.tuple,
    isOpen: isOpenIn(protocol, { isEstablished, isAnswered, isAssured }),
    ...(isEnding && { isEnding }),
    ...(hasHelper && { hasHelper }),
    ...(master && { master: { protocol: master.protocol, original: master.tuple } }),
    icmp,
    key: zone === undefined ? key : concat([key, zone]),
  };
}

function readFlows(messages: readonly Message[], texts: Texts): KernelFlow[] {
  const flows: KernelFlow[] = [];
  for (const message of messages) {
    const flow = readFlow(message, texts);
    if (flow !== undefined) flows.push(flow);
  }
  return flows;
}

type TupleDirection = 'original' | 'reply';
/** Who began a connection is the source of its original tuple; who answers it, of the other one. */
const tupleOf = ({ direction }: FarEnd): TupleDirection => (direction === 'inbound' ? 'original' : 'reply');

/** Asks for the connections with this far end. Old kernels list all. */
function listRequest(end: TupleDirection, value: bigint): Request {
  const flags = (name: TupleDirection) => attribute(filterBy[name], le32(name === end ? bySource : 0));
  const payload = concat([
    head(familyNumber(4)),
    nested(cta[end], nested(tuple.ip, attribute(ip.source4, addressBytes(4, value)))),
    nested(cta.filter, flags('original'), flags('reply')),
  ]);
  return { type: conntrack.get, payload };
}

/** Whether the source of this tuple of a listed connection is one of these IPv6 addresses, which are written as their bytes. */
function hasSource({ payload }: Message, end: TupleDirection, sources: ReadonlySet<string>): boolean {
  let found = false;
  const seeAddress = (which: number, from: number, to: number): void => {
    if (which === ip.source6) found ||= sources.has(payload.subarray(from, to).join());
  };
  const seePart = (part: number, from: number, to: number): void => {
    if (part === tuple.ip) walkAttributes(payload, from, to, seeAddress);
  };
  walkAttributes(payload, headSize, payload.length, (type, from, to) => {
    if (type === cta[end]) walkAttributes(payload, from, to, seePart);
  });
  return found;
}

/** Shows every tracked connection, or those with one of these far ends and perhaps others, part by part, as the kernel lists them. */
export async function visitConnections(
  channel: NetlinkChannel,
  remotes: readonly FarEnd[] | undefined,
  visit: (part: readonly KernelFlow[]) => void,
): Promise<void> {
  const texts: Texts = new Map();
  const seen = (part: readonly Message[]): void => visit(readFlows(part, texts));
  if (remotes === undefined) return channel.dump(netfilter, { type: conntrack.get, payload: head(0) }, seen);
  const sources6 = { original: new Set<string>(), reply: new Set<string>() };
  for (const remote of remotes) {
    const address = parseAddress(remote.address);
    if ('fault' in address) continue;
    const { family, value } = address;
    if (family === 4) await channel.dump(netfilter, listRequest(tupleOf(remote), value), seen);
    else sources6[tupleOf(remote)].add(addressBytes(6, value).join());
  }
  const ends = (['original', 'reply'] as const).filter((end) => sources6[end].size > 0);
  if (ends.length === 0) return;
  // Where a filter names an IPv6 address, kernels also list connections without that address, so they are filtered
  // here.
  await channel.dump(netfilter, { type: conntrack.get, payload: head(familyNumber(6)) }, (part) =>
    seen(part.filter((message) => ends.some((end) => hasSource(message, end, sources6[end])))),
  );
}

/** A connection of TCP or UDP that was not listed, as the kernel would know it. It finds one by the tuple of either direction. */
export function kernelFlow(flow: Flow): KernelFlow {
  const { family, protocol, original } = flow;
  const side = family === 4 ? [ip.source4, ip.destination4] : [ip.source6, ip.destination6];
  const ends = [original.src, original.dst].map((text, i) => {
    const address = parseAddress(text);
    return attribute(side[i] ?? 0, addressBytes(family, 'fault' in address ? 0n : address.value));
  });
  const transport = nested(
    tuple.protocol,
    attribute(proto.number, u8(protocol)),
    attribute(proto.source, be16(original.sport)),
    attribute(proto.destination, be16(original.dport)),
  );
  const key = concat([head(familyNumber(family)), nested(cta.original, nested(tuple.ip, ...ends), transport)]);
  return { ...flow, key };
}

const gone = 2;

/** Makes the kernel forget these connections; one that has ended by itself meanwhile is none the worse. Answers with the first other error. */
export async function forgetConnections(
  channel: NetlinkChannel,
  flows: readonly KernelFlow[],
): Promise<number | undefined> {
  const numbers = await channel.send(
    netfilter,
    flows.map(({ key }) => ({ type: conntrack.delete, payload: key })),
  );
  return numbers.find((errno) => errno !== 0 && errno !== gone);
}
