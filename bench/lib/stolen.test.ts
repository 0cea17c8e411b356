/** Proves that stolen time is read from the kernel's account, as a share of what was asked for. */
import { expect, it } from 'vitest';
import { readTicks, stolenSince } from './stolen.ts';

it('counts what was asked for: time that nobody wanted is no part of it, and a guest of ours is counted once', () => {
  const text = 'cpu  100 20 30 5000 600 7 8 35 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5\n';
  expect(readTicks(text)).toEqual({ stolen: 35, wanted: 200 });
});

it('is a share on this machine too', () => {
  const share = stolenSince()();
  expect(share).toBeGreaterThanOrEqual(0);
  expect(share).toBeLessThanOrEqual(1);
});
