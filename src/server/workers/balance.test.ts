/** Proves which worker pauses: one with more than its share, and never so many that the port would be left with too few. */
import { expect, test } from 'vitest';
import { mustPause, type Load } from './balance.ts';

const now = 10_000;
const load = (connections: number, more: Partial<Load> = {}): Load => ({
  connections,
  reportedAt: now - 10,
  pausedUntil: 0,
  ...more,
});

/** For each of them whether it must rest. */
const verdicts = (...all: Load[]): boolean[] => all.map((one) => mustPause(one, all, now));

test('a worker with far more than the mean pauses, the others take what comes', () => {
  expect(verdicts(load(900), load(100), load(200))).toEqual([true, false, false]);
  expect(verdicts(load(0), load(0), load(0))).toEqual([false, false, false]);
});

test('small differences are even enough, and a paused one stays paused until it is close to the mean', () => {
  expect(verdicts(load(1_030), load(1_000), load(1_000))).toEqual([false, false, false]);
  expect(verdicts(load(1_060), load(1_000), load(1_000))).toEqual([false, false, false]);
  const paused = { pausedUntil: now + 100 };
  expect(verdicts(load(1_060, paused), load(1_000), load(1_000))).toEqual([true, false, false]);
  expect(verdicts(load(1_030, paused), load(1_000), load(1_000))).toEqual([false, false, false]);
});

test('at least two others take connections while one is paused', () => {
  expect(verdicts(load(900), load(100))).toEqual([false, false]);
  expect(verdicts(load(900, { pausedUntil: now + 100 }), load(900), load(0), load(0))).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(verdicts(load(900, { pausedUntil: now + 100 }), load(900), load(0))).toEqual([true, false, false]);
});

test('a worker without recent reports counts neither as one that takes connections nor in the mean', () => {
  const silent = { reportedAt: now - 5_000 };
  expect(verdicts(load(900), load(100), load(0, silent))).toEqual([false, false, false]);
  expect(verdicts(load(900), load(900), load(900), load(0, silent))).toEqual([false, false, false, false]);
});
