/** Proves that a question costs no more than its budget, and that few of one user and one organization run at a time. */
import { expect, test } from 'vitest';
import { TimeSlices } from './time-slices.ts';
import { WorkRefused, WorkShares, type WorkBudget, type WorkLimits } from './work-budget.ts';

const limits: WorkLimits = {
  perUser: 2,
  perOrganization: 3,
  perProcess: 4,
  waitingPerUser: 2,
  workMs: 100,
  answerMs: 1_000,
};

/** Time passes only where a test says so, and the processor works meanwhile unless it is away; slices never make it wait. */
function stage() {
  let [now, worked] = [0, 0];
  const monotonic = (): number => now;
  const slices = new TimeSlices({ monotonic, worked: () => 0, defer: queueMicrotask, rest: queueMicrotask });
  const shares = new WorkShares({ slices, monotonic, processorMs: () => worked, limits });
  const pass = (ms: number, workedMs = ms): void => {
    now += ms;
    worked += workedMs;
  };
  return { pass, ask: shares.budgetFor.bind(shares), inTurn: shares.inTurn.bind(shares) };
}

const settle = async (): Promise<void> => {
  for (let i = 0; i < 50; i += 1) await Promise.resolve();
};

const whyOf = (error: unknown): string => (error instanceof WorkRefused ? error.why : String(error));

/** Asks for a place, and says what became of it. */
function begin(work: WorkBudget): { outcome: string } {
  const asked = { outcome: 'waiting' };
  Promise.resolve(work.next()).then(
    () => (asked.outcome = 'running'),
    (error: unknown) => (asked.outcome = whyOf(error)),
  );
  return asked;
}

test('a question that takes more work than one may is too costly, and stops there', async () => {
  const { ask, pass } = stage();
  let pieces = 0;
  const work = ask({ user: 'u', organization: 'o' });
  const walk = work.each(Array.from({ length: 1_000 }), () => {
    pieces += 1;
    pass(10);
  });
  expect(await walk.catch(whyOf)).toBe('too_costly');
  expect(pieces).toBe(11);
});

test('time in which the machine does something else is not work, nor is what other threads do', async () => {
  const { ask, pass } = stage();
  const slow = ask({ user: 'u', organization: 'o' });
  const walk = (worked: number) =>
    slow.each(Array.from({ length: 9 }), () => pass(10, worked)).then(() => 'done', whyOf);
  expect(await walk(1)).toBe('done');
  expect(await walk(1)).toBe('done');
  expect(await walk(1_000)).toBe('too_costly');
});

test('time in which it waits for others, as for the database, is not work', async () => {
  const { ask, pass } = stage();
  const work = ask({ user: 'u', organization: 'o' });
  await work.each([1], () => pass(60));
  pass(500);
  expect(await work.each([1], () => pass(30)).then(() => 'done', whyOf)).toBe('done');
});

test('two of a user and three of an organization run at a time, and the next begins when one ends', async () => {
  const { ask } = stage();
  const works = [
    ask({ user: 'a', organization: 'o' }),
    ask({ user: 'a', organization: 'o' }),
    ask({ user: 'a', organization: 'p' }),
    ask({ user: 'b', organization: 'o' }),
    ask({ user: 'b', organization: 'o' }),
    ask({ user: 'c', organization: 'q' }),
  ] as const;
  const asked = works.map(begin);
  await settle();
  const outcomes = (): string[] => asked.map(({ outcome }) => outcome);
  expect(outcomes()).toEqual(['running', 'running', 'waiting', 'running', 'waiting', 'running']);
  works[0].end();
  await settle();
  expect(outcomes()).toEqual(['running', 'running', 'running', 'running', 'waiting', 'running']);
  works[1].end();
  await settle();
  expect(outcomes().at(4)).toBe('running');
});

test('who asks once goes before those who ask again and again, and waits for one of their questions at most', async () => {
  const { ask } = stage();
  const greedy = ['a', 'b'].flatMap((user) => Array.from({ length: 3 }, () => ask({ user, organization: user })));
  const asked = greedy.map(begin);
  const stranger = begin(ask({ user: 'd', organization: 'd' }));
  await settle();
  expect(stranger.outcome).toBe('waiting');
  const first = asked.findIndex(({ outcome }) => outcome === 'running');
  greedy[first]?.end();
  await settle();
  expect(stranger.outcome).toBe('running');
});

test('what is read in turns has no more than its share at a time, however many ask, and a failure gives the place back', async () => {
  const { inTurn } = stage();
  let [now, most] = [0, 0];
  const read = async (): Promise<void> => {
    most = Math.max(most, (now += 1));
    await settle();
    now -= 1;
    throw new Error('the database is away');
  };
  const reads = Array.from({ length: 4 }, () => inTurn({ user: 'a', organization: 'o' }, read).catch(String));
  expect(new Set(await Promise.all(reads))).toEqual(new Set(['Error: the database is away']));
  expect(most).toBe(limits.perUser);
});

test('a user whose questions wait already is told to come again, and other users are not', async () => {
  const { ask } = stage();
  const asked = Array.from({ length: 5 }, () => begin(ask({ user: 'a', organization: 'o' })));
  const other = begin(ask({ user: 'b', organization: 'o' }));
  await settle();
  expect(asked.map(({ outcome }) => outcome)).toEqual(['running', 'running', 'waiting', 'waiting', 'busy']);
  expect(other.outcome).toBe('running');
});

test('a question whose reader has gone ends at its next piece, and leaves its place', async () => {
  const { ask } = stage();
  const first = ask({ user: 'a', organization: 'o' });
  let pieces = 0;
  const walk = first.each(Array.from({ length: 100 }), () => {
    pieces += 1;
    if (pieces === 3) first.end();
  });
  expect(await walk.catch(whyOf)).toBe('busy');
  expect(pieces).toBeLessThan(20);
  const others = [begin(ask({ user: 'a', organization: 'o' })), begin(ask({ user: 'a', organization: 'o' }))];
  const waited = ask({ user: 'a', organization: 'o' });
  const third = begin(waited);
  await settle();
  expect([...others, third].map(({ outcome }) => outcome)).toEqual(['running', 'running', 'waiting']);
  waited.end();
  await settle();
  expect(third.outcome).toBe('busy');
});

test('a question that is not worked out in time says whose fault it was', async () => {
  const { ask, pass } = stage();
  const [small, large] = [ask({ user: 'a', organization: 'o' }), ask({ user: 'b', organization: 'o' })];
  await small.each([1], () => pass(1));
  await large.each([1], () => pass(80));
  pass(1_000);
  expect(await small.each([1], () => {}).catch(whyOf)).toBe('busy');
  expect(await large.each([1], () => {}).catch(whyOf)).toBe('too_costly');
});

test('work that is not done in time is too costly or waits for others; before it begins it is neither', async () => {
  const { ask, pass } = stage();
  const [own, others] = [ask({ user: 'a', organization: 'o' }), ask({ user: 'b', organization: 'o' })];
  expect(own.isUnderWay).toBe(false);
  await own.each([1], () => pass(80));
  await others.each([1], () => pass(1));
  expect([own.isUnderWay, own.late().why, others.late().why]).toEqual([true, 'too_costly', 'busy']);
  own.end();
  expect(own.isUnderWay).toBe(false);
});
