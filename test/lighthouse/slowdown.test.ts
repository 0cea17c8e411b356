/** Proves that the slowdown is that of Lighthouse's calculator. */
import { expect, test } from 'vitest';
import { median, slowdownFor, usualSlowdown } from './slowdown.ts';

test('a slow machine is slowed down less than a fast one, as Lighthouse has it', () => {
  const indexes = [150, 475, 800, 1_050, 1_300, 1_533, 1_766, 2_000, 2_233];
  expect(indexes.map((index) => Math.round(slowdownFor(index) * 100) / 100)).toEqual([1, 1.5, 2, 2.5, 3, 4, 5, 6, 7]);
  expect(slowdownFor(1_533)).toBeCloseTo(usualSlowdown, 1);
});

test('a machine slower than the phone cannot stand for it', () => {
  expect(() => slowdownFor(149)).toThrow('slower');
  expect(() => slowdownFor(Number.NaN)).toThrow('slower');
});

test('the median is one of the values', () => {
  expect(median([9, 1, 5])).toBe(5);
  expect(() => median([])).toThrow('nothing');
});
