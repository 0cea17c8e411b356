/** Owns the moment of the past that a command looks at: `--at TIME` or `--at-revision N`. */
import { usageError } from '../terminal/exit.ts';
import { readPastTime, shortTime } from '../terminal/time.ts';

/** As the server reads it; empty for the present. */
export interface PastQuery {
  readonly at_revision?: number;
  readonly at?: string;
}

export interface PastOptions {
  readonly at?: string;
  readonly atRevision?: string;
}

export function readPast({ at, atRevision }: PastOptions): PastQuery | undefined {
  if (at !== undefined && atRevision !== undefined) throw usageError('use either --at or --at-revision');
  if (at !== undefined) return { at: new Date(readPastTime(at, Date.now())).toISOString() };
  if (atRevision === undefined) return undefined;
  if (!/^[1-9]\d{0,15}$/.test(atRevision)) throw usageError(`\`${atRevision}\` is not a revision: give one like 120`);
  return { at_revision: Number(atRevision) };
}

/** `at revision 120`, `at 2026-11-09 10:00`. */
export const pastWords = ({ at, at_revision }: PastQuery): string =>
  at === undefined ? `at revision ${at_revision}` : `at ${shortTime(at)}`;

/**
 * The moment of the past, in milliseconds since 1970, by which rules that expire are judged. A revision is as old as the newest of the records that it has.
 */
export const pastMoment = ({ at }: PastQuery, records: readonly { readonly updated_at: string }[]): number =>
  at === undefined
    ? records.reduce((newest, { updated_at }) => Math.max(newest, Date.parse(updated_at)), 0)
    : Date.parse(at);
