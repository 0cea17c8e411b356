/** Proves how ranges of deleted revisions are merged. */
import { expect, test } from 'vitest';
import { mergeRanges } from './gaps.ts';

const range = (first: number, last: number) => ({ first, last });

test.each([
  ['ranges that overlap, touch or hold each other are one', [range(5, 9), range(1, 3), range(4, 4), range(6, 7)], []],
  ['ranges that a revision separates stay apart', [range(1, 3), range(5, 9)], [range(1, 3), range(5, 9)]],
] as const)('%s', (_title, given, apart) => {
  expect(mergeRanges(given)).toEqual(apart.length > 0 ? apart : [range(1, 9)]);
});

test('a range is joined with the next where the revisions between them are given up', () => {
  const ranges = [range(1, 3), range(5, 9), range(20, 22), range(30, 31)];
  expect(mergeRanges(ranges, new Set([3, 22]))).toEqual([range(1, 9), range(20, 31)]);
});
