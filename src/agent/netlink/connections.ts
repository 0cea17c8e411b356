/** Owns tracked connections over netlink: listed, and forgotten one by one (ctnetlink). */
import { parseAddress, printAddress } from '../../policy/address.ts';
import type { Family } from '../../policy/rule.ts';
import type { FarEnd } from '../host/flow-table.ts';
import type { Flow, Tuple } from '../host/flows.ts';
import type { NetlinkChannel, Request } from './channel.ts';
import {
  addressBytes,
  addressValue,
  attribute,
  concat,
  copyNested,
  familyNumber,
  le32,
  nested,
  walkAttributes,
  type Message,
} from './message.ts';

/** The protocol of netlink. */
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
const numberAt = (bytes: Uint8Array, from: number, to: number): number =>
  to - from === 2 ? (bytes[from] ?? 0) * 256 + (bytes[from + 1] ?? 0) : (bytes[from] ?? 0);

function addressAt(bytes: Uint8Array, from: number, to: number): string {
  if (to - from !== 4) return printAddress(6, addressValue(bytes.subarray(from, to)));
  return `${bytes[from]}.${bytes[from + 1]}.${bytes[from + 2]}.${bytes[from + 3]}`;
}

/** A tuple, or nothing where it has no two addresses. */
function readTuple(bytes: Uint8Array, begin: number, end: number): ReadTuple | undefined {
  let [src, dst, family]: [string | undefined, string | undefined, Family] = [undefined, undefined, 4];
  let [protocol, sport, dport] = [Number.NaN, 0, 0];
  let [type, code, id]: [number | undefined, number, number] = [undefined, 0, 0];
  const seeAddress = (which: number, from: number, to: number): void => {
    if (which === ip.source4 || which === ip.source6) src = addressAt(bytes, from, to);
    if (which === ip.destination4 || which === ip.destination6) dst = addressAt(bytes, from, to);
    family = which === ip.source4 || which === ip.destination4 ? 4 : 6;
  };
  const seeProtocol = (which: number, from: number, to: number): void => {
    const value = numberAt(bytes, from, to);
    if (which === proto.number) protocol = value;
    else if (which === proto.source) sport = value;
    else if (which === proto.destination) dport = value;
    else if (which === proto.id4 || which === proto.id6) id = value;
    else if (which === proto.type4 || which === proto.type6) type = value;
    else if (which === proto.code4 || which === proto.code6) code = value;
  };
  walkAttributes(bytes, begin, end, (part, from, to) => {
    if (part === tuple.ip) walkAttributes(bytes, from, to, seeAddress);
    else if (part === tuple.protocol) walkAttributes(bytes, from, to, seeProtocol);
  });
  if (src === undefined || dst === undefined || Number.isNaN(protocol)) return undefined;
  const icmp = type === undefined ? undefined : { type, code, id };
  return { tuple: { src, dst, sport, dport }, family, protocol, icmp };
}

const headSize = 4;

/** The connection that a message of a listing tells of. */
export function readFlow({ payload }: Pick<Message, 'payload'>): KernelFlow | undefined {
  let [original, reply]: [ReadTuple | undefined, ReadTuple | undefined] = [undefined, undefined];
  const key: Uint8Array[] = [];
  walkAttributes(payload, headSize, payload.length, (type, from, to) => {
    if (type === cta.original) {
      original = readTuple(payload, from, to);
      key.push(copyNested(payload, from, to));
    } else if (type === cta.reply) reply = readTuple(payload, from, to);
    else if (type === cta.zone) key.push(attribute(cta.zone, payload.subarray(from, to)));
  });
  const [began, answered] = [original as ReadTuple | undefined, reply as ReadTuple | undefined];
  if (began === undefined || answered === undefined) return undefined;
  const { family, protocol, icmp } = began;
  const [whole] = key;
  return {
    family,
    protocol,
    original: began.tuple,
    reply: answered.tuple,
    icmp,
    key: whole !== undefined && key.length === 1 ? whole : concat(key),
  };
}

type End = 'original' | 'reply';
/** Who began a connection is the source of its original tuple; who answers it, of the other one. */
const endOf = ({ direction }: FarEnd): End => (direction === 'inbound' ? 'original' : 'reply');

/** Asks for the connections with this far end. Old kernels list all. */
function listRequest(end: End, value: bigint): Request {
  const flags = (name: End) => attribute(filterBy[name], le32(name === end ? bySource : 0));
  const payload = concat([
    head(familyNumber(4)),
    nested(cta[end], nested(tuple.ip, attribute(ip.source4, addressBytes(4, value)))),
    nested(cta.filter, flags('original'), flags('reply')),
  ]);
  return { type: conntrack.get, payload };
}

/** Whether the source of this tuple of a listed connection is one of these IPv6 addresses, which are written as their bytes. */
function hasSource({ payload }: Message, end: End, sources: ReadonlySet<string>): boolean {
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

/** Every tracked connection, or those with one of these far ends and perhaps others. */
export async function listConnections(
  channel: NetlinkChannel,
  remotes?: readonly FarEnd[],
): Promise<readonly KernelFlow[]> {
  const flows: KernelFlow[] = [];
  const seen = (message: Message): void => {
    const flow = readFlow(message);
    if (flow !== undefined) flows.push(flow);
  };
  if (remotes === undefined) {
    await channel.dump(netfilter, { type: conntrack.get, payload: head(0) }, seen);
    return flows;
  }
  const sources6 = { original: new Set<string>(), reply: new Set<string>() };
  for (const remote of remotes) {
    const address = parseAddress(remote.address);
    if ('fault' in address) continue;
    const { family, value } = address;
    if (family === 4) await channel.dump(netfilter, listRequest(endOf(remote), value), seen);
    else sources6[endOf(remote)].add(addressBytes(6, value).join());
  }
  const ends = (['original', 'reply'] as const).filter((end) => sources6[end].size > 0);
  if (ends.length === 0) return flows;
  // Kernels list those that do not have the address where a filter names one of IPv6, so they are told apart here.
  await channel.dump(netfilter, { type: conntrack.get, payload: head(familyNumber(6)) }, (message) => {
    if (ends.some((end) => hasSource(message, end, sources6[end]))) seen(message);
  });
  return flows;
}

const gone = 2;

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
