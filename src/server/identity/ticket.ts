/**
 * Owns the ticket of a sign-in in progress: one random value in a cookie of the browser. `state`, `nonce` and the PKCE
 * verifier are digests of it. So any server can finish what another began, nothing is stored for people who never
 * return, and a modified ticket matches no answer of the provider.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Random } from './secret.ts';

/** How long a person may take at the provider. */
export const ticketSeconds = 600;

export interface Ticket {
  readonly text: string;
  /** After this it is good no longer. */
  readonly until: Date;
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** The verifier's digest, which the provider gets first. */
  readonly challenge: string;
  readonly returnTo: string;
}

const digest = (text: string): string => createHash('sha256').update(text, 'utf8').digest('base64url');

function ticketOf(text: string, untilSeconds: number, returnTo: string): Ticket {
  const verifier = digest(`verifier ${text}`);
  const [state, nonce] = [digest(`state ${text}`), digest(`nonce ${text}`)];
  return { text, until: new Date(untilSeconds * 1000), state, nonce, verifier, challenge: digest(verifier), returnTo };
}

/** A path of the web UI, and nothing that a browser could take for another place. For a browser, `%2e` is a dot here. */
export const safeReturn = (path: string | undefined): string =>
  path !== undefined && path.length <= 1000 && /^\/ui\/[\w\-./~%?=&+,:]*$/.test(path) && !/(?:\.|%2e){2}/i.test(path)
    ? path
    : '/ui/';

export function newTicket(returnTo: string, { clock, random }: { clock: () => number; random: Random }): Ticket {
  const bytes = new Uint8Array(32);
  random(bytes);
  const until = Math.floor(clock() / 1000) + ticketSeconds;
  const parts = [
    until.toString(36),
    Buffer.from(bytes).toString('base64url'),
    Buffer.from(returnTo).toString('base64url'),
  ];
  return ticketOf(parts.join('.'), until, returnTo);
}

/** Undefined for an invalid or expired ticket. */
export function readTicket(text: string | undefined, clock: () => number): Ticket | undefined {
  const [, until = '', returnTo = ''] = /^([0-9a-z]{1,9})\.[\w-]{43}\.([\w-]{0,1400})$/.exec(text ?? '') ?? [];
  if (text === undefined || until === '') return undefined;
  const [seconds, now] = [Number.parseInt(until, 36), clock() / 1000];
  // The clock of the server that made it may be ahead of ours. Nobody makes one for longer: used ones are kept so long.
  if (seconds < now || seconds > now + 2 * ticketSeconds) return undefined;
  return ticketOf(text, seconds, safeReturn(Buffer.from(returnTo, 'base64url').toString('utf8')));
}

/** Compares without telling by its time how much was right. */
export function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
