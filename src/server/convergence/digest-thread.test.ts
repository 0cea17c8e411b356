/** Proves that a digest thread answers more than once, and that a new thread replaces one that has ended. */
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { processSlices } from '../scheduling/time-slices.ts';
import { DigestThread, type DigestTask } from './digest-thread.ts';

/** Answers with how many questions it had; ends at a question about a group of this text. */
const code = `
  const { parentPort } = require('node:worker_threads');
  let [questions, json] = [0, ''];
  parentPort.on('message', (message) => {
    if (message.type === 'group') json = message.group.json;
    if (message.type !== 'digest') return;
    if (json.startsWith('end')) process.exit(1);
    parentPort.postMessage({ digest: String((questions += 1)) });
    if (json.startsWith('last')) process.exit(0);
  });`;

const started: Worker[] = [];
const ended: Promise<unknown>[] = [];
function newThread(): DigestThread {
  const start = (): Worker => {
    const worker = new Worker(code, { eval: true });
    started.push(worker);
    ended.push(new Promise((resolve) => worker.once('exit', resolve)));
    return worker;
  };
  return new DigestThread(processSlices(), () => Promise.resolve(start));
}
afterEach(async () => {
  ended.length = 0;
  await Promise.all(started.splice(0).map((worker) => worker.terminate()));
});

/** Too large to be worked out at once. */
const task = (word = 'group'): DigestTask => ({
  groups: [{ json: word.padEnd(30_000), hash: '' }],
  devices: [],
  fleet: {},
  at: 0,
});

test('one thread answers one question after the other', async () => {
  const digests = newThread();
  expect(await digests.digest(task())).toBe('1');
  expect(await digests.digest(task())).toBe('2');
  expect(await Promise.all([digests.digest(task()), digests.digest(task())])).toEqual(['3', '4']);
  expect(started).toHaveLength(1);
  digests.close();
});

test('a thread that ends at a question fails that question, and the next one has a new thread', async () => {
  const digests = newThread();
  await expect(digests.digest(task('end'))).rejects.toThrow('the thread ended');
  expect(await digests.digest(task())).toBe('1');
  expect(started).toHaveLength(2);
  digests.close();
});

test('a thread that ends while nobody asks is replaced', async () => {
  const digests = newThread();
  expect(await digests.digest(task('last'))).toBe('1');
  await ended[0];
  expect(await digests.digest(task())).toBe('1');
  expect(started).toHaveLength(2);
  digests.close();
});
