/** Proves that the agent closes what its parts share only when all of them have ended. */
import { expect, test } from 'vitest';
import { untilAllEnd } from './until-all-end.ts';

test('a part that fails ends the others, and they finish their work before its fault is thrown', async () => {
  const ending = new AbortController();
  let isSaved = false;
  const saving = (async () => {
    await new Promise((resolve) => ending.signal.addEventListener('abort', resolve));
    await new Promise(setImmediate);
    isSaved = true;
    throw new Error('a later fault');
  })();
  const failing = Promise.reject(new Error('the first fault'));
  await expect(untilAllEnd([saving, failing], ending)).rejects.toThrow('the first fault');
  expect(isSaved).toBe(true);
});

test('a fault that came from outside is thrown when the parts have ended', async () => {
  const ending = new AbortController();
  const ended = untilAllEnd([Promise.resolve()], ending);
  ending.abort(new Error('the lock is taken'));
  await expect(ended).rejects.toThrow('the lock is taken');
});
