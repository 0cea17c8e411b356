/** Owns the id of a request: the one that the caller sends, if it is safe in a log, or a new one. */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

const safeId = /^[A-Za-z0-9._:-]{1,64}$/;

export function requestIdOf(headers: IncomingHttpHeaders): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && safeId.test(given) ? given : randomUUID();
}
