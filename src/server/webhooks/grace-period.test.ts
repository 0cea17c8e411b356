/** Proves when the silence of devices counts: not after a start, an outage or a pause, until devices had time to reconnect. */
import { expect, test } from 'vitest';
import { GracePeriod } from './grace-period.ts';

const settleMs = 60_000;

/** Asked every second, from one time up to another; gives when the grace period was first over. */
function firstOver(gracePeriod: GracePeriod, from: number, to: number): number | undefined {
  for (let now = from; now <= to; now += 1_000) if (gracePeriod.isOver(now)) return now;
  return undefined;
}

test('the grace period is over once a process has listened for a minute, and stays over', () => {
  const gracePeriod = new GracePeriod(settleMs);
  expect(firstOver(gracePeriod, 0, 100_000)).toBe(60_000);
  expect(firstOver(gracePeriod, 61_000, 61_000)).toBe(61_000);
});

test('an outage of the database begins the minute anew, at its end', () => {
  const gracePeriod = new GracePeriod(settleMs);
  expect(firstOver(gracePeriod, 0, 60_000)).toBe(60_000);
  for (let now = 61_000; now < 1_000_000; now += 1_000) {
    expect(gracePeriod.isOver(now) && now > 61_000).toBe(false);
    gracePeriod.interrupted();
  }
  expect(firstOver(gracePeriod, 1_000_000, 1_100_000)).toBe(1_060_000);
});

test.each([
  ['forward', 1_000_000],
  ['back', -1_000_000],
])('a pause of the machine, or a clock that is set %s, begins it anew too', (_, by) => {
  const gracePeriod = new GracePeriod(settleMs);
  expect(firstOver(gracePeriod, 0, 60_000)).toBe(60_000);
  expect(firstOver(gracePeriod, 60_000 + by, 200_000 + by)).toBe(120_000 + by);
});

test('without time to settle it is always over', () => {
  const gracePeriod = new GracePeriod(0);
  expect([0, 0, 5, 1_000_000].map((now) => gracePeriod.isOver(now))).toEqual([true, true, true, true]);
});
