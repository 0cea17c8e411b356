/** Proves that a token bucket allows the configured rate, and that many buckets cost little. */
import { expect, test } from 'vitest';
import { RateLimiter } from './rate-limit.ts';

test('a bucket gives its burst at once, then so many a second, and says how long to wait', () => {
  let now = 0;
  const limiter = new RateLimiter({ perSecond: 0.5, burst: 3 }, () => now);
  expect([1, 2, 3, 4].map(() => limiter.take('a'))).toEqual([0, 0, 0, 2]);
  expect(limiter.wait('a')).toBe(2);
  expect(limiter.wait('b')).toBe(0);
  now += 2000;
  expect(limiter.wait('a')).toBe(0);
  expect([limiter.take('a'), limiter.take('a'), limiter.take('b')]).toEqual([0, 2, 0]);
  now -= 10_000;
  expect(limiter.take('a')).toBe(2);
});

test('keys without number are forgotten, the oldest first, many at a time', () => {
  const limiter = new RateLimiter({ perSecond: 1, burst: 2 }, () => 0);
  let sweeps = 0;
  for (let key = 0; key < 100_000; key += 1) {
    const before = limiter.size;
    limiter.take(String(key));
    if (limiter.size < before) sweeps += 1;
    expect(limiter.size).toBeLessThanOrEqual(10_000);
  }
  // A sweep looks at every bucket: one for each new key would cost a hundred times the work.
  expect(sweeps).toBeLessThan(30);
  expect(limiter.take('99999')).toBe(0);
  expect(limiter.take('99999')).toBe(1);
});
