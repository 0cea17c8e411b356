/** Proves that the growth of the cost tells a quadratic reader from a linear one. */
import { expect, test } from 'vitest';
import { growthOfReading, mostGrowth } from './growth.ts';

test('a search that begins anew at each place is quadratic, and one that remembers is not', () => {
  expect(growthOfReading((text) => /;+x/.test(text), ';', 500)).toBeGreaterThan(mostGrowth);
  expect(growthOfReading((text) => text.split(';'), 'a;', 2_000)).toBeLessThan(mostGrowth);
});
