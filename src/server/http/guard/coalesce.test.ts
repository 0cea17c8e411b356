/** Proves that a turn shares its lookups and the next turn looks again. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Turn } from './coalesce.ts';

test('those who ask in one turn share one lookup, failures included; the next turn looks again', async () => {
  const turn = new Turn<number>();
  let looks = 0;
  const look = (): Promise<number> => Promise.resolve((looks += 1));
  expect(await Promise.all([turn.get('a', look), turn.get('a', look), turn.get('b', look)])).toEqual([1, 1, 2]);
  await nextTurn();
  expect(await turn.get('a', look)).toBe(3);
  await nextTurn();
  const fail = (): Promise<number> => Promise.reject(new Error(`look ${(looks += 1)}`));
  const outcomes = await Promise.allSettled([turn.get('c', fail), turn.get('c', fail)]);
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected']);
  expect(looks).toBe(4);
});
