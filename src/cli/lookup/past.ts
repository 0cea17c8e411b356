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
