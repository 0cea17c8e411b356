/** Owns the local sockets of TCP connections over netlink (sock_diag): it lists them. */
import { printAddress } from '../../policy/address.ts';
import { socketFlow, type Flow } from '../host/flows.ts';
import type { NetlinkChannel } from './channel.ts';
import { addressValue, concat, familyNumber, le32, type Message } from './message.ts';

/** The protocol of netlink. */
const sockDiag = 4;
const socketRequest = 20;
const tcp = 6;
const listening = 10;
const everyState = 0xffff_ffff;
/** The offsets of a socket's identity (ports, addresses, interface, cookie) in a reply (`struct inet_diag_msg`). */
const identity = { from: 4, to: 52 } as const;

/** The head of `struct inet_diag_req_v2`, before the identity of a socket. */
const requestHead = (family: number, states: number): Uint8Array =>
  concat([Uint8Array.of(family, tcp, 0, 0), le32(states)]);

const mapped = 0xffffn;

/** An address in an answer about a socket. One of IPv6 that speaks IPv4 has its addresses inside those of IPv6. */
function addressIn(payload: Uint8Array, at: number): string {
  const family = payload[0] === familyNumber(4) ? 4 : 6;
  const value = addressValue(payload.subarray(at, at + (family === 4 ? 4 : 16)));
  return family === 6 && value >> 32n === mapped ? printAddress(4, value & 0xffff_ffffn) : printAddress(family, value);
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
    await channel.dump(sockDiag, { type: socketRequest, payload }, (part) => {
      for (const message of part) see(message);
    });
  }
  visit(found.map((socket) => socketFlow({ ...socket, isServer: listens.has(socket.here) })));
}
