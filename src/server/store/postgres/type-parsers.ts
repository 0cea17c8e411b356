/** Owns how PostgreSQL's values become JavaScript's: revisions are numbers, times are ISO texts. */
import { types } from 'pg';

const int8 = 20;
const timestamptz = 1184;

function revision(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`a number beyond what JSON readers keep exactly: ${text}`);
  return value;
}

const date = types.getTypeParser(timestamptz) as (text: string) => Date | number;

/** For one client; the driver's global parsers stay as they are. */
export const typeParsers = {
  getTypeParser(oid: number, format?: 'text' | 'binary'): (text: string) => unknown {
    if (format !== 'binary') {
      if (oid === int8) return revision;
      if (oid === timestamptz) return (text) => new Date(date(text)).toISOString();
    }
    return types.getTypeParser(oid, format) as (text: string) => unknown;
  },
};
