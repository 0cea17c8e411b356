/** Proves that work is done in parts while more of it comes, in order, and not beyond a failure. */
import { describe, expect, test } from 'vitest';
import { BatchQueue, type BatchQueueOptions } from './batch-queue.ts';

/** Parts that are done when the test says so. */
function parts(options?: BatchQueueOptions) {
  const begun: (readonly number[])[] = [];
  const open: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
  const work = new BatchQueue<number>((part) => {
    begun.push(part);
    return new Promise((resolve, reject) => open.push({ resolve, reject }));
  }, options);
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return { begun, open, work, turn };
}

describe('work in parts', () => {
  test('takes what came in one go together, and what comes meanwhile together after it', async () => {
    const { begun, open, work, turn } = parts();
    work.add([1]);
    work.add([]);
    work.add([2, 3]);
    await turn();
    work.add([4]);
    await turn();
    work.add([5]);
    expect(begun).toEqual([[1, 2, 3]]);
    open[0]?.resolve();
    await turn();
    expect(begun).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
    open[1]?.resolve();
    await work.done();
    work.add([6]);
    await turn();
    open[2]?.resolve();
    await work.done();
    expect(begun.at(-1)).toEqual([6]);
  });

  test('begins at once, goes on once enough wait, and ends with those that are left', async () => {
    const { begun, open, work, turn } = parts({ least: 3 });
    work.add([1]);
    await turn();
    open[0]?.resolve();
    await turn();
    work.add([2, 3]);
    await turn();
    expect(begun).toEqual([[1]]);
    work.add([4, 5]);
    await turn();
    work.add([6]);
    const done = work.done();
    expect(begun).toEqual([[1], [2, 3, 4, 5]]);
    open[1]?.resolve();
    await turn();
    open[2]?.resolve();
    await done;
    expect(begun.at(-1)).toEqual([6]);
  });

  test('that failed says so at the end, and nothing is begun after it', async () => {
    const { begun, open, work, turn } = parts();
    work.add([1]);
    await turn();
    work.add([2]);
    open[0]?.reject(new Error('no'));
    await expect(work.done()).rejects.toThrow('no');
    work.add([3]);
    await turn();
    await expect(work.done()).rejects.toThrow('no');
    expect(begun).toEqual([[1]]);
  });

  test('is done where there was none', async () => {
    const { begun, work } = parts();
    await work.done();
    expect(begun).toEqual([]);
  });
});
