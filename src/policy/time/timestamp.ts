/** Owns timestamps as text (RFC 3339) and as milliseconds since the epoch. */

const timestamp =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i;

/** What can be written with a year of four digits in UTC. Neither PostgreSQL nor a reader of our own records knows the year 0 or 10000. */
const earliest = Date.parse('0001-01-01T00:00:00Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

/** Milliseconds since the epoch; nothing where the text is not an RFC 3339 time that exists in the calendar, from the year 1 to 9999 in UTC. */
export function parseTimestamp(text: string): number | undefined {
  if (!timestamp.test(text)) return undefined;
  const moment = Date.parse(text.toUpperCase());
  // Date.parse rolls February 30th over into March.
  const [year = 0, month = 0, day = 0] = text.slice(0, 10).split('-').map(Number);
  const exists = new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
  return exists && moment >= earliest && moment <= latest ? moment : undefined;
}

export const isTimestamp = (text: string): boolean => parseTimestamp(text) !== undefined;
