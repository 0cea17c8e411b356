/** Proves that questions asked together share one answer, and that no answer is older than its question. */
import { afterEach, expect, test, vi } from 'vitest';
import { Gather, patienceMs } from './gather.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** A database that answers when it is told to. */
function slow() {
  const asked: { readonly keys: readonly string[]; readonly go: (fail?: Error) => void }[] = [];
  let version = 0;
  const gather = new Gather<string, string>(
    (keys) =>
      new Promise((resolve, reject) => {
        // What it sees is what was there when it was asked.
        const seen = version;
        const go = (fail?: Error): void => (fail ? reject(fail) : resolve(keys.map((key) => `${key} ${seen}`)));
        asked.push({ keys, go });
      }),
  );
  return { gather, asked, change: () => (version += 1) };
}
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a lone question goes out at once, those asked meanwhile go together, each gets its own answer', async () => {
  const { gather, asked } = slow();
  const answers = ['a', 'b', 'c'].map((key) => gather.get(key));
  expect(asked.map(({ keys }) => keys)).toEqual([['a']]);
  asked[0]?.go();
  await settle();
  expect(asked.map(({ keys }) => keys)).toEqual([['a'], ['b', 'c']]);
  asked[1]?.go();
  expect(await Promise.all(answers)).toEqual(['a 0', 'b 0', 'c 0']);
});

test('an answer is never older than its question', async () => {
  const { gather, asked, change } = slow();
  const before = gather.get('token');
  change();
  const after = gather.get('token');
  asked[0]?.go();
  await settle();
  asked[1]?.go();
  expect([await before, await after]).toEqual(['token 0', 'token 1']);
});

test('a failure is everyone’s who shared the question, and nobody else’s', async () => {
  const { gather, asked } = slow();
  const first = gather.get('a');
  const later = [gather.get('b'), gather.get('c')];
  asked[0]?.go(new Error('lost'));
  await expect(first).rejects.toThrow('lost');
  await settle();
  asked[1]?.go();
  expect(await Promise.all(later)).toEqual(['b 0', 'c 0']);
  const again = gather.get('d');
  asked[2]?.go();
  expect(await again).toBe('d 0');
});

test('the patient wait for each other: one goes out at once, the next after a while with all who came', async () => {
  vi.useFakeTimers();
  const { gather, asked } = slow();
  const patient = { patient: true };
  const answers = [gather.get('a', patient)];
  expect(asked.map(({ keys }) => keys)).toEqual([['a']]);
  asked[0]?.go();
  await vi.advanceTimersByTimeAsync(patienceMs / 2);
  answers.push(gather.get('b', patient), gather.get('c', patient));
  await vi.advanceTimersByTimeAsync(patienceMs / 2 - 1);
  expect(asked).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(asked.map(({ keys }) => keys)).toEqual([['a'], ['b', 'c']]);
  asked[1]?.go();
  expect(await Promise.all(answers)).toEqual(['a 0', 'b 0', 'c 0']);
  // Long after the last one there is nobody to wait for.
  await vi.advanceTimersByTimeAsync(patienceMs * 10);
  void gather.get('d', patient);
  expect(asked.at(-1)?.keys).toEqual(['d']);
});

test('somebody in a hurry takes the patient along', async () => {
  vi.useFakeTimers();
  const { gather, asked } = slow();
  void gather.get('a', { patient: true });
  asked[0]?.go();
  await vi.advanceTimersByTimeAsync(0);
  void gather.get('b', { patient: true });
  expect(asked).toHaveLength(1);
  void gather.get('c');
  expect(asked.map(({ keys }) => keys)).toEqual([['a'], ['b', 'c']]);
  asked[1]?.go();
  await vi.advanceTimersByTimeAsync(patienceMs * 3);
  expect(asked).toHaveLength(2);
});
