/** Proves the length of the time slices that an organization's streams get. */
import { expect, test } from 'vitest';
import { TestHub, loopTurns } from './hub.fixture.ts';

test('a round over many streams leaves room for other work, and more of them while changes come quicker than it goes round', async () => {
  const t = new TestHub({ settings: { slice: 64, sliceUnderLoad: 16 } });
  const sinks = await Promise.all(Array.from({ length: 128 }, () => t.watch([{ kind: 'device' }])));
  const told = (): readonly number[] => sinks.map((sink) => sink.lines().length);
  /** How many streams were served in each of so many turns of the event loop. */
  const served = async (count: number, change: () => void): Promise<readonly number[]> => {
    const all: number[] = [];
    for (let i = 0; i < count; i += 1) {
      const before = told();
      change();
      await loopTurns(1);
      all.push(told().filter((lines, index) => lines > (before[index] ?? 0)).length);
    }
    return all;
  };
  t.db.create('device');
  t.db.hint();
  expect(Math.max(...(await served(20, () => {})))).toBe(64);
  const busy = await served(40, () => {
    t.db.create('device');
    t.db.hint();
  });
  expect(Math.max(...busy.slice(20))).toBe(16);
  await loopTurns(100);
  expect(new Set(told())).toEqual(new Set([42]));
  t.db.create('device');
  t.db.hint();
  expect(Math.max(...(await served(20, () => {})))).toBe(64);
  t.hub.close();
});
