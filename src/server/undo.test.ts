/** Proves that what was started is undone in order, and within its time whatever a step does. */
import { expect, test } from 'vitest';
import { Undo } from './undo.ts';

const never = (): Promise<void> => new Promise(() => {});

test('steps are undone last first, one after the other', async () => {
  const undo = new Undo();
  const done: string[] = [];
  for (const name of ['a', 'b', 'c']) {
    undo.push(async () => {
      await Promise.resolve();
      done.push(name);
    });
  }
  await undo.all();
  expect(done).toEqual(['c', 'b', 'a']);
});

test('a step that never ends holds up no other beyond the time, and an essential one is waited for all the same', async () => {
  const undo = new Undo();
  const done: string[] = [];
  let finish = (): void => {};
  undo.push(() => new Promise<void>((resolve) => (finish = resolve)).then(() => void done.push('database')), {
    isEssential: true,
  });
  undo.push(() => void done.push('begun'));
  undo.push(never);
  undo.push(never);
  const ended = undo.all(20).then(() => done.push('ended'));
  await expect.poll(() => done).toEqual(['begun']);
  finish();
  await ended;
  expect(done).toEqual(['begun', 'database', 'ended']);
});

test('a step that fails keeps no other from being done', async () => {
  const undo = new Undo();
  const done: string[] = [];
  undo.push(() => void done.push('last'));
  undo.push(() => Promise.reject(new Error('broken')));
  await expect(undo.all()).rejects.toThrow('broken');
  expect(done).toEqual(['last']);
});
