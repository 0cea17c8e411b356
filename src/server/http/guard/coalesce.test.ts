/** Proves that requests of one turn of the event loop share their reads, and that the next turn reads again. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CoalescedReads } from './coalesce.ts';

test('those who ask in one turn share one lookup, failures included; the next turn looks again', async () => {
  const reads = new CoalescedReads<number>();
  let looks = 0;
  const look = (): Promise<number> => Promise.resolve((looks += 1));
  expect(await Promise.all([reads.get('a', look), reads.get('a', look), reads.get('b', look)])).toEqual([1, 1, 2]);
  await nextTurn();
  expect(await reads.get('a', look)).toBe(3);
  await nextTurn();
  const fail = (): Promise<number> => Promise.reject(new Error(`look ${(looks += 1)}`));
  const outcomes = await Promise.allSettled([reads.get('c', fail), reads.get('c', fail)]);
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected']);
  expect(looks).toBe(4);
});
