/** Owns the state of an informer's connection, as an operator or a page may show it. */
import type { RingfenceError } from './error.ts';

/**
 * - `connecting`: a stream has been asked for and has said nothing yet;
 * - `listing`: it brings the initial set, or what was missed;
 * - `live`: everything has been seen, changes come as they happen;
 * - `waiting`: the last stream failed, and the next attempt is at `retryAt`;
 * - `stopped`: not running.
 */
export type ConnectionPhase = 'connecting' | 'listing' | 'live' | 'waiting' | 'stopped';

export interface ConnectionState {
  readonly phase: ConnectionPhase;
  /** When this phase began, in milliseconds since the epoch. */
  readonly since: number;
  /** Failed attempts since the last progress. */
  readonly failures: number;
  readonly retryAt?: number;
  /** The newest failure, also after it was overcome. */
  readonly lastError?: { readonly error: RingfenceError; readonly at: number };
}

export const initialState = (now: number): ConnectionState => ({ phase: 'stopped', since: now, failures: 0 });
