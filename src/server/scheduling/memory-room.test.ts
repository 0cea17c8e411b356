/** Proves how memory is shared: what is large waits for room, in order; what is small does not; and what never has room is refused. */
import { expect, test } from 'vitest';
import { MemoryRoom } from './memory-room.ts';
import { WorkRefused } from './work-budget.ts';

const roomOf = (patienceMs = 600_000) => {
  const room = new MemoryRoom({ most: 100, small: 5, patienceMs });
  const entered: string[] = [];
  const enter = (name: string, size: number): Promise<() => void> =>
    room.enter(name, size).then((leave) => {
      entered.push(name);
      return leave;
    });
  /** Whatever can happen has happened. */
  const settled = async (): Promise<readonly string[]> => {
    await new Promise(setImmediate);
    return entered;
  };
  return { enter, settled };
};

test('what is large waits until there is room, in the order in which it came, and what is small does not wait', async () => {
  const { enter, settled } = roomOf();
  const [leaveA, leaveB] = await Promise.all([enter('a', 60), enter('b', 40)]);
  const large = enter('c', 90);
  const behind = enter('d', 10);
  await enter('small', 5);
  expect(await settled()).toEqual(['a', 'b', 'small']);
  leaveB();
  leaveB();
  expect(await settled()).toEqual(['a', 'b', 'small']);
  leaveA();
  expect(await settled()).toEqual(['a', 'b', 'small', 'c', 'd']);
  (await large)();
  (await behind)();
});

test('what several use takes room once, until the last of them has left', async () => {
  const { enter, settled } = roomOf();
  const [first, second] = await Promise.all([enter('a', 80), enter('a', 80)]);
  const other = enter('b', 80);
  first();
  expect(await settled()).toEqual(['a', 'a']);
  second();
  (await other)();
});

test('what never has room is too costly, and what has none in time is refused for now; who waits behind it goes on', async () => {
  const { enter } = roomOf(1);
  await expect(enter('a', 101)).rejects.toEqual(new WorkRefused('too_costly'));
  const leave = await enter('a', 100);
  await expect(enter('b', 50)).rejects.toMatchObject({ why: 'busy' });
  leave();
  (await enter('c', 100))();
});
