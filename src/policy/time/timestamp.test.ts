/** Proves which texts are times: RFC 3339, in the calendar, with a year of four digits in UTC. */
import { expect, test } from 'vitest';
import { parseTimestamp } from './timestamp.ts';

test.each([
  '0001-01-01T00:00:00Z',
  '1969-12-31T23:59:59.999Z',
  '2026-11-18t10:00:00.123456789+05:30',
  '2028-02-29T00:00:00Z',
  '9999-12-31T23:59:59.999Z',
])('%s is a time, and is written with four digits again', (text) => {
  expect(new Date(parseTimestamp(text) ?? Number.NaN).toISOString()).toMatch(/^\d{4}-/);
});

test.each([
  '0000-12-31T23:59:59Z',
  '0001-01-01T00:00:00+14:00',
  '9999-12-31T23:59:59-12:00',
  '2026-02-29T00:00:00Z',
  '2026-11-18T24:00:00Z',
  '2026-11-18T10:00:60Z',
  '2026-11-18',
  '+010000-01-01T00:00:00Z',
])('%s is not', (text) => {
  expect(parseTimestamp(text)).toBeUndefined();
});
