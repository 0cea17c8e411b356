/** Owns the conversion of PostgreSQL's values to JavaScript's: revisions become numbers, times become ISO strings. */
import { types } from 'pg';

const int8 = 20;
const timestamptz = 1184;

function revision(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`a number beyond what JSON readers keep exactly: ${text}`);
  return value;
}

const date = types.getTypeParser(timestamptz) as (text: string) => Date | number;

/** `2026-11-16 07:09:35.123456+00`, as times come where the session counts in UTC: put together anew, in a tenth of the time that a date takes. */
function timestamp(text: string): string {
  const { length } = text;
  const isPlain = length >= 22 && length <= 29 && text.endsWith('+00') && text[4] === '-' && text[10] === ' ';
  if (!isPlain) return new Date(date(text)).toISOString();
  const fraction = length === 22 ? '' : text.slice(20, length - 3);
  // Joined it is one piece of memory: many are kept for long.
  return [text.slice(0, 10), 'T', text.slice(11, 19), '.', fraction.slice(0, 3).padEnd(3, '0'), 'Z'].join('');
}

/** For one client; the driver's global parsers stay as they are. */
export const typeParsers = {
  getTypeParser(oid: number, format?: 'text' | 'binary'): (text: string) => unknown {
    if (format !== 'binary') {
      if (oid === int8) return revision;
      if (oid === timestamptz) return timestamp;
    }
    return types.getTypeParser(oid, format) as (text: string) => unknown;
  },
};
