/** Proves that nft gets more time for a larger batch, and after it was not enough. */
import { expect, test } from 'vitest';
import { AdaptiveTimeout } from './adaptive-timeout.ts';

const minute = 60_000;

test('a short batch has a minute, and a batch of ten megabytes minutes more', () => {
  const timeout = new AdaptiveTimeout();
  expect(timeout.for(100)).toBeLessThan(minute + 1_000);
  expect(timeout.for(10_000_000)).toBeGreaterThan(3 * minute);
});

test('a listing has as long as the largest batch', () => {
  const timeout = new AdaptiveTimeout();
  expect(timeout.for()).toBe(minute);
  const large = timeout.for(10_000_000);
  timeout.for(10);
  expect(timeout.for()).toBe(large);
});

test('it doubles whenever it was not enough, up to half an hour, until something worked', () => {
  const timeout = new AdaptiveTimeout();
  const seen = Array.from({ length: 7 }, () => {
    const given = timeout.for(0);
    timeout.grow();
    return given / minute;
  });
  expect(seen).toEqual([1, 2, 4, 8, 16, 30, 30]);
  timeout.reset();
  expect(timeout.for(0)).toBe(minute);
});
