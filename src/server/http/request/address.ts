/** Owns the client address of a request. */
import { isIP } from 'node:net';

/** The parts of a request from which its client address is read. */
export interface RequestOrigin {
  readonly ip: string;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** The address from trusted proxies, if it is valid; otherwise that of the connection. */
export const addressOf = ({ ip, socket }: RequestOrigin): string =>
  isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
