/** Proves that nft gets more time for a larger batch, and after it was not enough. */
import { expect, test } from 'vitest';
import { Patience } from './patience.ts';

const minute = 60_000;

test('a short batch has a minute, and a batch of ten megabytes minutes more', () => {
  const patience = new Patience();
  expect(patience.for(100)).toBeLessThan(minute + 1_000);
  expect(patience.for(10_000_000)).toBeGreaterThan(3 * minute);
});

test('a listing has as long as the largest batch', () => {
  const patience = new Patience();
  expect(patience.for()).toBe(minute);
  const large = patience.for(10_000_000);
  patience.for(10);
  expect(patience.for()).toBe(large);
});

test('it doubles whenever it was not enough, up to half an hour, until something worked', () => {
  const patience = new Patience();
  const seen = Array.from({ length: 7 }, () => {
    const given = patience.for(0);
    patience.grow();
    return given / minute;
  });
  expect(seen).toEqual([1, 2, 4, 8, 16, 30, 30]);
  patience.reset();
  expect(patience.for(0)).toBe(minute);
});
