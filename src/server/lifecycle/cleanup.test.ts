/** Proves that cleanup steps run in order and within their time limit, also when a step fails or hangs. */
import { expect, test } from 'vitest';
import { Cleanup } from './cleanup.ts';

const never = (): Promise<void> => new Promise(() => {});

test('steps run last first, one after the other', async () => {
  const cleanup = new Cleanup();
  const done: string[] = [];
  for (const name of ['a', 'b', 'c']) {
    cleanup.push(async () => {
      await Promise.resolve();
      done.push(name);
    });
  }
  await cleanup.run();
  expect(done).toEqual(['c', 'b', 'a']);
});

test('a step that never ends holds up no other beyond the time, and an essential one is waited for all the same', async () => {
  const cleanup = new Cleanup();
  const done: string[] = [];
  let finish = (): void => {};
  cleanup.push(() => new Promise<void>((resolve) => (finish = resolve)).then(() => void done.push('database')), {
    isEssential: true,
  });
  cleanup.push(() => void done.push('begun'));
  cleanup.push(never);
  cleanup.push(never);
  const ended = cleanup.run(20).then(() => done.push('ended'));
  await expect.poll(() => done).toEqual(['begun']);
  finish();
  await ended;
  expect(done).toEqual(['begun', 'database', 'ended']);
});

test('a step that fails keeps no other from being done', async () => {
  const cleanup = new Cleanup();
  const done: string[] = [];
  cleanup.push(() => void done.push('last'));
  cleanup.push(() => Promise.reject(new Error('broken')));
  await expect(cleanup.run()).rejects.toThrow('broken');
  expect(done).toEqual(['last']);
});
