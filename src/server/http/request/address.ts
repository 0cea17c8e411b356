/** Owns the answer to where a request came from. */
import { isIP } from 'node:net';

/** A request, as far as it tells where it came from. */
export interface RequestOrigin {
  readonly ip: string;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** The address from trusted proxies, if it is valid; otherwise that of the connection. */
export const addressOf = ({ ip, socket }: RequestOrigin): string =>
  isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
