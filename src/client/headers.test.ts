/** Proves the reading of the link to the next page, and that a hostile server cannot make it slow. */
import { expect, test } from 'vitest';
import { growthOfReading, mostGrowth } from '../../test/lib/growth.ts';
import { nextPage } from './headers.ts';

test.each([
  ['</api/x?limit=2&after=abc>; rel="next"', 'abc'],
  ['</api/x?after=abc>; rel=next', 'abc'],
  ['</api/x?after=abc>;title="x"; REL="prev Next"', 'abc'],
  ['</first?after=a>; rel="first", </x?after=b>; rel="next"', 'b'],
  ['<https://evil.example/?after=a%20b#after=c>; rel="next"', 'a b'],
  ['</x?after=a>; rel="nextish"', undefined],
  ['</x?after=a>; title="next"', undefined],
  ['</x>; rel="next"', undefined],
  ['rel="next"', undefined],
  ['', undefined],
  [null, undefined],
])('%s leads to %s', (link, after) => {
  expect(nextPage(link)).toBe(after);
});

const pieces = ['<', '<a>;', ';', '=', ' ', '<x?after=>; rel="'];

test.each(pieces)('a link of %j alone is read in proportion to its length', (piece) => {
  expect(growthOfReading(nextPage, piece, 1_000)).toBeLessThan(mostGrowth);
});
