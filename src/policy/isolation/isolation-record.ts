/**
 * Owns the reading of a device's `isolated` field from the server: either all of it is understood, or none of it is
 * used.
 */
import { NotUnderstood } from '../fleet/not-understood.ts';
import { readPeers } from '../fleet/read-peers.ts';
import type { UserId } from '../ids.ts';
import { isObject } from '../json.ts';
import { Problems } from '../problem.ts';
import type { Peer } from '../rule.ts';
import { parseTimestamp } from '../time/timestamp.ts';

/** The field as a device's record has it. */
export interface IsolationRecord {
  readonly since: string;
  readonly until?: string;
  /** The user who isolated the device. */
  readonly by: UserId;
  readonly reason: string;
  readonly allow?: readonly Peer[];
  /** Addresses of the device that the other devices do not refuse, because somebody else needs them. */
  readonly not_refused?: readonly string[];
}

/** As much of it as decides about packets, and why. */
export interface Isolation {
  /** Milliseconds since the epoch from which on the device is not isolated any more; absent where a person lifts it. */
  readonly until?: number;
  /** The devices that it still exchanges traffic with. */
  readonly allow: readonly Peer[];
  /** In the words of the person who isolated it, to be shown on the device. */
  readonly reason?: string;
  /** As of `IsolationRecord`, as `printAddress` writes them. */
  readonly notRefused?: readonly string[];
}

const known: ReadonlySet<string> = new Set(['since', 'until', 'by', 'reason', 'allow', 'not_refused']);
const anyNumber = Number.POSITIVE_INFINITY;
const nobody: readonly Peer[] = [];
const isTextList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string');

/** Throws `NotUnderstood` where the field has content that this program does not know: it may allow less than the rest says. */
export function readIsolationRecord(device: string, value: unknown): Isolation {
  const fail = (why: string): never => {
    throw new NotUnderstood(`the device ${device}`, `/isolated: ${why}`);
  };
  if (!isObject(value)) return fail('it is not an object');
  const strange = Object.keys(value).find((name) => !known.has(name));
  if (strange !== undefined) return fail(`the field ${strange.slice(0, 100)} is unknown`);
  const { until: time, allow: peers, reason, not_refused: leftOut } = value;
  const until = typeof time === 'string' ? parseTimestamp(time) : undefined;
  if (time !== undefined && until === undefined) return fail('until is not a time');
  const problems = new Problems();
  const allow = peers === undefined ? nobody : readPeers(peers, '/isolated/allow', problems, { most: anyNumber });
  const [problem] = problems.problems;
  if (problem !== undefined) return fail(`${problem.pointer}: ${problem.detail}`);
  if (leftOut !== undefined && !isTextList(leftOut)) return fail('not_refused is not a list of addresses');
  return {
    allow,
    ...(until !== undefined && { until }),
    ...(typeof reason === 'string' && { reason }),
    ...(leftOut !== undefined && { notRefused: leftOut }),
  };
}
