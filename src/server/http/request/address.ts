/** Owns the answer to where a request came from. */
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';

/** What trusted proxies say, where it is an address; else that of the connection. */
export const addressOf = ({ ip, socket }: Pick<FastifyRequest, 'ip' | 'socket'>): string =>
  isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
