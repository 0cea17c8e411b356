/** Proves that concurrent questions share one read, and that no answer is older than its question. */
import { expect, test } from 'vitest';
import { Coalescer, batchDelayMs, type CoalescerOptions } from './coalescer.ts';

/** A database that answers, and a clock that moves, only when the test says so. */
function stage(options: Partial<CoalescerOptions<string, string>> = {}) {
  const reads: { readonly keys: readonly string[]; readonly answer: (fail?: Error) => void }[] = [];
  let version = 0;
  let now = 1_000;
  let deferred: (() => void)[] = [];
  let timers: { readonly at: number; readonly run: () => void }[] = [];
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 10; round += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      const due = deferred;
      deferred = [];
      for (const run of due) run();
    }
  };
  const coalescer = new Coalescer<string, string>({
    read: (keys) =>
      new Promise((resolve, reject) => {
        // What it sees is what was there when it began.
        const seen = version;
        const answer = (fail?: Error): void => (fail ? reject(fail) : resolve(keys.map((key) => `${key} ${seen}`)));
        reads.push({ keys, answer });
      }),
    timers: {
      now: () => now,
      defer: (run) => void deferred.push(run),
      later: (run, ms) => void timers.push({ at: now + ms, run }),
    },
    ...options,
  });
  return {
    ...coalescer,
    keys: () => reads.map(({ keys }) => keys),
    change: () => (version += 1),
    settle,
    answer: async (index: number, fail?: Error): Promise<void> => {
      reads[index]?.answer(fail);
      await settle();
    },
    advance: async (ms: number): Promise<void> => {
      now += ms;
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { run } of due) run();
      await settle();
    },
  };
}

test('questions of one turn go together, equal ones once, and each gets its own answer', async () => {
  const { immediate, keys, settle, answer } = stage();
  const answers = ['a', 'b', 'a'].map((key) => immediate.get(key));
  await settle();
  expect(keys()).toEqual([['a', 'b']]);
  await answer(0);
  expect(await Promise.all(answers)).toEqual(['a 0', 'b 0', 'a 0']);
});

test('questions asked while a read is in flight wait for it and share the next', async () => {
  const { immediate, keys, settle, answer } = stage();
  void immediate.get('a');
  await settle();
  const later = [immediate.get('b'), immediate.get('c')];
  await settle();
  expect(keys()).toEqual([['a']]);
  await answer(0);
  expect(keys()).toEqual([['a'], ['b', 'c']]);
  await answer(1);
  expect(await Promise.all(later)).toEqual(['b 0', 'c 0']);
});

test('an answer is never older than its question', async () => {
  const { immediate, settle, answer, change } = stage();
  const before = immediate.get('token');
  await settle();
  change();
  const after = immediate.get('token');
  await answer(0);
  await answer(1);
  expect([await before, await after]).toEqual(['token 0', 'token 1']);
});

test('nothing is kept: a question that comes later is read anew', async () => {
  const { immediate, keys, settle, answer } = stage();
  void immediate.get('a');
  await settle();
  await answer(0);
  void immediate.get('a');
  await settle();
  expect(keys()).toEqual([['a'], ['a']]);
});

test('a failure is everyone’s who shared the read, and nobody else’s', async () => {
  const { immediate, settle, answer } = stage();
  const first = Promise.allSettled([immediate.get('a'), immediate.get('b')]);
  await settle();
  const later = immediate.get('c');
  await answer(0, new Error('lost'));
  expect((await first).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await answer(1);
  expect(await later).toBe('c 0');
});

test('a read that does not answer every key fails', async () => {
  const { immediate, settle } = stage({ read: () => Promise.resolve([]) });
  const outcome = immediate.get('a').catch((error: Error) => error.message);
  await settle();
  expect(await outcome).toBe('0 answers to 1 questions');
});

test('batched questions wait for each other: a lone one goes at once, the next after a while with all that came', async () => {
  const { batched, keys, settle, answer, advance } = stage();
  const answers = [batched.get('a')];
  await settle();
  expect(keys()).toEqual([['a']]);
  await answer(0);
  await advance(batchDelayMs / 2);
  answers.push(batched.get('b'), batched.get('c'));
  await advance(batchDelayMs / 2 - 1);
  expect(keys()).toHaveLength(1);
  await advance(1);
  expect(keys()).toEqual([['a'], ['b', 'c']]);
  await answer(1);
  expect(await Promise.all(answers)).toEqual(['a 0', 'b 0', 'c 0']);
  // Long after the last read there is no reason to wait.
  await advance(batchDelayMs * 10);
  void batched.get('d');
  await settle();
  expect(keys().at(-1)).toEqual(['d']);
});

test('batched questions that can wait longer go together less often', async () => {
  const { batched, keys, settle, answer, advance } = stage({ delayMs: 10 * batchDelayMs });
  void batched.get('a');
  await settle();
  await answer(0);
  void batched.get('b');
  await advance(9 * batchDelayMs);
  void batched.get('c');
  await settle();
  expect(keys()).toEqual([['a']]);
  await advance(batchDelayMs);
  expect(keys()).toEqual([['a'], ['b', 'c']]);
});

test('batched questions never wait longer than the batch delay, though the clock is set back', async () => {
  const { batched, keys, settle, answer, advance } = stage();
  void batched.get('a');
  await settle();
  await answer(0);
  await advance(-3_600_000);
  void batched.get('b');
  await settle();
  await advance(batchDelayMs);
  expect(keys()).toEqual([['a'], ['b']]);
});

test('an immediate question takes the batched ones along, and the timer for them reads nothing more', async () => {
  const { batched, immediate, keys, settle, answer, advance } = stage();
  void batched.get('a');
  await settle();
  await answer(0);
  void batched.get('b');
  await settle();
  expect(keys()).toHaveLength(1);
  void immediate.get('c');
  await settle();
  expect(keys()).toEqual([['a'], ['b', 'c']]);
  await answer(1);
  await advance(batchDelayMs * 3);
  expect(keys()).toHaveLength(2);
});

test('more questions than one read should carry go in several, one after the other', async () => {
  const { batched, keys, settle, answer, advance } = stage();
  const asked = Array.from({ length: 2_500 }, (_, index) => String(index));
  const answers = batched.getMany(asked);
  await settle();
  expect(keys().map((read) => read.length)).toEqual([1_000]);
  for (const read of [0, 1]) await answer(read);
  await advance(batchDelayMs);
  await answer(2);
  expect(keys().map((read) => read.length)).toEqual([1_000, 1_000, 500]);
  expect(await answers).toEqual(asked.map((key) => `${key} 0`));
});

test('many keys are answered in their order', async () => {
  const { immediate, settle, answer } = stage();
  const answers = immediate.getMany(['c', 'a', 'c', 'b']);
  await settle();
  await answer(0);
  expect(await answers).toEqual(['c 0', 'a 0', 'c 0', 'b 0']);
});

test('concurrent reads do not wait for each other, and one key’s failure is its own', async () => {
  const lost = Promise.reject(new Error('lost'));
  lost.catch(() => {});
  const looks: string[] = [];
  const { immediate, settle } = stage({
    concurrent: true,
    read: (keys) =>
      keys.map((key) => {
        looks.push(key);
        return key === 'slow' ? new Promise<string>(() => {}) : key === 'lost' ? lost : Promise.resolve(key);
      }),
  });
  void immediate.get('slow');
  await settle();
  const answers = Promise.allSettled([immediate.get('lost'), immediate.get('a'), immediate.get('a')]);
  await settle();
  expect((await answers).map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  expect(looks).toEqual(['slow', 'lost', 'a']);
});
