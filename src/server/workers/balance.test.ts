/** Proves which worker rests: one with more than its part, and never so many that the port could be left alone. */
import { expect, test } from 'vitest';
import { mustRest, type Share } from './balance.ts';

const now = 10_000;
const share = (connections: number, more: Partial<Share> = {}): Share => ({
  connections,
  heardAt: now - 10,
  restsUntil: 0,
  ...more,
});

/** For each of them whether it must rest. */
const verdicts = (...all: Share[]): boolean[] => all.map((one) => mustRest(one, all, now));

test('a worker with far more than the mean rests, the others take what comes', () => {
  expect(verdicts(share(900), share(100), share(200))).toEqual([true, false, false]);
  expect(verdicts(share(0), share(0), share(0))).toEqual([false, false, false]);
});

test('small differences are even enough, and one that rests goes on until it is close to the mean', () => {
  expect(verdicts(share(1_030), share(1_000), share(1_000))).toEqual([false, false, false]);
  expect(verdicts(share(1_060), share(1_000), share(1_000))).toEqual([false, false, false]);
  const resting = { restsUntil: now + 100 };
  expect(verdicts(share(1_060, resting), share(1_000), share(1_000))).toEqual([true, false, false]);
  expect(verdicts(share(1_030, resting), share(1_000), share(1_000))).toEqual([false, false, false]);
});

test('at least two others take connections while one rests', () => {
  expect(verdicts(share(900), share(100))).toEqual([false, false]);
  expect(verdicts(share(900, { restsUntil: now + 100 }), share(900), share(0), share(0))).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(verdicts(share(900, { restsUntil: now + 100 }), share(900), share(0))).toEqual([true, false, false]);
});

test('a worker that has fallen silent counts neither as one that takes connections nor in the mean', () => {
  const silent = { heardAt: now - 5_000 };
  expect(verdicts(share(900), share(100), share(0, silent))).toEqual([false, false, false]);
  expect(verdicts(share(900), share(900), share(900), share(0, silent))).toEqual([false, false, false, false]);
});
