/** Proves how people may say when something ends. */
import { expect, it } from 'vitest';
import { readExpiry, shortTime } from './time.ts';

const now = Date.parse('2024-02-28T12:00:00Z');

it.each([
  ['30m', '2024-02-28T12:30:00.000Z'],
  ['12h', '2024-02-29T00:00:00.000Z'],
  ['2d', '2024-03-01T12:00:00.000Z'],
  ['1w', '2024-03-06T12:00:00.000Z'],
  ['2030-01-31T00:00:00Z', '2030-01-31T00:00:00.000Z'],
  ['2030-01-31T00:00:00+02:00', '2030-01-30T22:00:00.000Z'],
])('%s is read as %s', (text, time) => {
  expect(readExpiry(text, now)).toBe(time);
});

it.each(['', 'soon', '5', '-1d', '5y', '2030', '99999999d'])('%j is not a time', (text) => {
  expect(() => readExpiry(text, now)).toThrow('is not a time');
});

it('times are shown without fractions of a second', () => {
  expect(shortTime('2030-01-31T00:00:00.123456Z')).toBe('2030-01-31T00:00:00Z');
  expect(shortTime(undefined)).toBe('');
});
