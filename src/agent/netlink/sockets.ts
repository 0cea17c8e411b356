/** Owns the local sockets of TCP connections over netlink (sock_diag): it finds and aborts them. */
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { socketFlow, type Flow, type LocalFlow } from '../host/flows.ts';
import type { NetlinkChannel, Request } from './channel.ts';
import { addressBytes, addressValue, attribute, concat, familyNumber, le32, type Message } from './message.ts';

/** The protocol of netlink. */
const sockDiag = 4;
const gone = 2;
/** The socket has another cookie: it is another one by now. */
const stale = 116;
const socketRequest = { get: 20, destroy: 21 } as const;
const tcp = 6;
const listening = 10;
const everyState = 0xffff_ffff;
const anyCookie = new Uint8Array(8).fill(0xff);
/** The offsets of a socket's identity (ports, addresses, interface, cookie) in a reply (`struct inet_diag_msg`). */
const identity = { from: 4, to: 52 } as const;

/** The two addresses of connections, of which there may be very many. */
interface SocketAddresses {
  readonly near: Address;
  readonly far: Address;
  /** Asks for a socket between them; only the ports are missing. */
  readonly question: Uint8Array;
}

/** A connection with the ports of the socket at its near end. */
interface Wanted {
  readonly here: number;
  readonly there: number;
  readonly ends: SocketAddresses;
}

/** Reads the ends of connections, those between the same addresses once. */
function socketAddressesReader(interfaceIndex: number): (flow: LocalFlow) => SocketAddresses | undefined {
  const known = new Map<string, SocketAddresses | undefined>();
  return ({ local, remote }) => {
    const key = `${local} ${remote}`;
    if (known.has(key)) return known.get(key);
    const [near, far] = [parseAddress(local), parseAddress(remote)];
    const ends =
      'fault' in near || 'fault' in far ? undefined : { near, far, question: questionOf(near, far, interfaceIndex) };
    known.set(key, ends);
    return ends;
  };
}

function wantedOf({ flow: { original, reply }, direction }: LocalFlow, ends: SocketAddresses): Wanted {
  const [here, there] = direction === 'inbound' ? [reply.sport, original.sport] : [original.sport, reply.sport];
  return { here, there, ends };
}

/** The head of `struct inet_diag_req_v2`, before the identity of a socket. */
const requestHead = (family: number, states: number): Uint8Array =>
  concat([Uint8Array.of(family, tcp, 0, 0), le32(states)]);

const portsAt = 8;

function questionOf(near: Address, far: Address, interfaceIndex: number): Uint8Array {
  const payload = new Uint8Array(identity.to + 4);
  payload.set(requestHead(familyNumber(near.family), everyState));
  payload.set(addressBytes(near.family, near.value), portsAt + 4);
  payload.set(addressBytes(far.family, far.value), portsAt + 20);
  payload.set(le32(interfaceIndex), 44);
  payload.set(anyCookie, 48);
  return payload;
}

/** Asks for one socket. Where there is none, the kernel answers with the one that listens at its port. */
function socketRequestOf({ here, there, ends }: Wanted): Request {
  const payload = ends.question.slice();
  payload[portsAt] = here >>> 8;
  payload[portsAt + 1] = here;
  payload[portsAt + 2] = there >>> 8;
  payload[portsAt + 3] = there;
  return { type: socketRequest.get, payload };
}

/**
 * From so many sockets with one far end on, one listing of that far end's is less work than a question for each: the kernel goes through its whole table
 * of connections for a listing, twice, which takes 9 ms where that has 262,144 places, and a question takes some µs.
 */
const manySockets = 2_000;
const everyStateButListening = everyState - 2 ** listening;
const bytecode = 1;
const byDestination = 8;

/**
 * Lists the sockets with this far end: of its own family, and those that speak IPv4 as sockets of IPv6. The filter is one
 * condition, `struct inet_diag_bc_op` and `struct inet_diag_hostcond`: where it does not hold, it leads past its own end.
 */
async function listSockets(
  channel: NetlinkChannel,
  { family, value }: Address,
  visit: (part: readonly Message[]) => void,
): Promise<void> {
  const [address, anyPort] = [addressBytes(family, value), le32(0xffff_ffff)];
  const host = concat([Uint8Array.of(familyNumber(family), 8 * address.length, 0, 0), anyPort, address]);
  const size = 4 + host.length;
  const condition = concat([Uint8Array.of(byDestination, size, size + 4, 0), host]);
  for (const of of family === 4 ? ([4, 6] as const) : ([6] as const)) {
    const anySocket = new Uint8Array(identity.to - identity.from);
    const head = requestHead(familyNumber(of), everyStateButListening);
    const payload = concat([head, anySocket, attribute(bytecode, condition)]);
    await channel.dump(sockDiag, { type: socketRequest.get, payload }, visit);
  }
}

const keyOf = ({ here, there, ends: { near } }: Wanted): string =>
  `${here} ${there} ${printAddress(near.family, near.value)}`;

const mapped = 0xffffn;

/** An address in an answer about a socket. One of IPv6 that speaks IPv4 has its addresses inside those of IPv6. */
function addressIn(payload: Uint8Array, at: number): string {
  const family = payload[0] === familyNumber(4) ? 4 : 6;
  const value = addressValue(payload.subarray(at, at + (family === 4 ? 4 : 16)));
  return family === 6 && value >> 32n === mapped ? printAddress(4, value & 0xffff_ffffn) : printAddress(family, value);
}

/** The key of the socket in a reply. */
function keyIn({ payload }: Message): string {
  const port = (at: number): number => (payload[at] ?? 0) * 256 + (payload[at + 1] ?? 0);
  return `${port(4)} ${port(6)} ${addressIn(payload, 8)}`;
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
  many: number = manySockets,
): Promise<number | undefined> {
  const byFarEnd = new Map<string, Wanted[]>();
  const endsOf = socketAddressesReader(interfaceIndex);
  for (const flow of flows) {
    const ends = flow.flow.protocol === tcp && flow.forwarded === undefined ? endsOf(flow) : undefined;
    if (ends === undefined) continue;
    const list = byFarEnd.get(flow.remote) ?? [];
    byFarEnd.set(flow.remote, list);
    list.push(wantedOf(flow, ends));
  }
  const found: Uint8Array[] = [];
  const see = ({ payload }: Message): void => {
    if (payload.length < identity.to || payload[1] === listening) return;
    const socket = payload.slice(identity.from, identity.to);
    found.push(concat([requestHead(payload[0] ?? 0, everyState), socket]));
  };
  const single: Wanted[] = [];
  for (const wanted of byFarEnd.values()) {
    const [first] = wanted;
    if (first === undefined || wanted.length < many) single.push(...wanted);
    else {
      const keys = new Set(wanted.map(keyOf));
      await listSockets(channel, first.ends.far, (part) => {
        for (const message of part) if (keys.has(keyIn(message))) see(message);
      });
    }
  }
  const looked = await channel.send(sockDiag, single.map(socketRequestOf), (_, message) => see(message));
  const ended = await channel.send(
    sockDiag,
    found.map((payload) => ({ type: socketRequest.destroy, payload })),
  );
  return [...looked, ...ended].find((errno) => errno !== 0 && errno !== gone && errno !== stale);
}

/** States in which data may pass: established, and half closed. */
const openStates: ReadonlySet<number> = new Set([1, 4, 5, 8, 9, 11]);

/** Shows the TCP connections of local sockets. */
export async function visitSockets(channel: NetlinkChannel, visit: (part: readonly Flow[]) => void): Promise<void> {
  const listens = new Set<number>();
  const found: { readonly near: string; readonly far: string; readonly here: number; readonly there: number }[] = [];
  const port = (payload: Uint8Array, at: number): number => (payload[at] ?? 0) * 256 + (payload[at + 1] ?? 0);
  const see = ({ payload }: Message): void => {
    if (payload.length < identity.to) return;
    const [here, there, state] = [port(payload, 4), port(payload, 6), payload[1] ?? 0];
    if (state === listening) listens.add(here);
    if (openStates.has(state)) found.push({ near: addressIn(payload, 8), far: addressIn(payload, 24), here, there });
  };
  for (const family of [4, 6] as const) {
    const anySocket = new Uint8Array(identity.to - identity.from);
    const payload = concat([requestHead(familyNumber(family), everyState), anySocket]);
    await channel.dump(sockDiag, { type: socketRequest.get, payload }, (part) => {
      for (const message of part) see(message);
    });
  }
  visit(found.map((socket) => socketFlow({ ...socket, isServer: listens.has(socket.here) })));
}
