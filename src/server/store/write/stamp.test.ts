/** Proves that a stamp has the format of `Date.toISOString`. */
import { expect, test } from 'vitest';
import { now } from './stamp.ts';

test('a stamp is what a date writes, at the borders of seconds, when the clock steps back, and before 1970', () => {
  const start = Date.parse('2026-12-31T23:59:58.000Z');
  const steps = [0, 1, 9, 10, 99, 100, 999, 1_000, 1_999, 2_000, 1_500, 0, -1, 0.75, 86_400_000];
  for (const time of [...steps.map((step) => start + step), 0, -1, -1_000, -1_001])
    expect(now({ clock: () => time })).toBe(new Date(Math.floor(time)).toISOString());
});
