/** Owns transactions of the packet filter (nf_tables) over netlink: how a request begins, and the marks around a batch. */
import type { NetlinkChannel, Request } from './channel.ts';
import { be16, concat } from './message.ts';

/** The protocol of netlink, and the subsystem of it. */
export const netfilter = 12;
const nfTables = 10;
const inet = 1;

const mark = (type: number): Request => ({ type, payload: concat([Uint8Array.of(0, 0), be16(nfTables)]) });
const marks = { begin: mark(0x10), end: mark(0x11) };

/** The type of a message, from the number of what is asked within the subsystem. */
export const messageTypeOf = (asked: number): number => (nfTables << 8) | asked;
/** Of every message about tables of the family. */
export const inetHead = Uint8Array.of(inet, 0, 0, 0);

/** One request about a table of the family. */
export const filterRequest = (asked: number, flags: number, ...attributes: readonly Uint8Array[]): Request => ({
  type: messageTypeOf(asked),
  flags,
  payload: concat([inetHead, ...attributes]),
});

/** Does all that is requested, at one instant, or none. */
export const transactFilter = (channel: NetlinkChannel, requests: readonly Request[]): Promise<void> =>
  channel.transact(netfilter, marks, requests);
