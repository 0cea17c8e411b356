/** Proves the loop of due work: nothing waits for anything else, a failure is told once, and a stop leaves nothing under way. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DueWorkLoop } from './due-work.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function makeLoop() {
  const warnings: string[] = [];
  const leases = { claim: async () => true, release: async () => {} };
  return { warnings, loop: new DueWorkLoop({ leases, onWarning: (message) => warnings.push(message) }) };
}

test('work is asked again after the time that it gives, and not before its first', async () => {
  const { loop } = makeLoop();
  const asked: number[] = [];
  const began = Date.now();
  loop.start({
    task: 'count',
    firstMs: 500,
    run: async () => asked.push(Date.now() - began) * 1_000,
  });
  await vi.advanceTimersByTimeAsync(499);
  expect(asked).toEqual([]);
  await vi.advanceTimersByTimeAsync(4_001);
  expect(asked).toEqual([500, 1_500, 3_500]);
  await loop.close();
});

test('work that never comes back holds up no other work', async () => {
  const { loop } = makeLoop();
  let release = (): void => {};
  loop.start({ task: 'hang', run: () => new Promise((resolve) => (release = () => resolve(0))) });
  let others = 0;
  loop.start({ task: 'go on', run: async () => (others += 1) && 100 });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(others).toBeGreaterThan(5);
  release();
  await loop.close();
});

test('a failure is told once for each outage, and tried again every second', async () => {
  const { loop, warnings } = makeLoop();
  let tries = 0;
  const outages = new Set([2, 3, 4, 6]);
  loop.start({
    task: 'look',
    run: async () => {
      tries += 1;
      if (outages.has(tries)) throw new Error('away');
      return 5_000;
    },
  });
  await vi.advanceTimersByTimeAsync(1);
  expect(tries).toBe(1);
  await vi.advanceTimersByTimeAsync(8_000);
  expect(tries).toBe(5);
  expect(warnings).toEqual(['cannot look; the server keeps trying']);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(warnings).toHaveLength(2);
  await loop.close();
});

test('a wake that comes while the work runs has it run once more', async () => {
  const { loop } = makeLoop();
  let runs = 0;
  let finish = (): void => {};
  const wake = loop.start({
    task: 'wait',
    run: () => {
      runs += 1;
      return new Promise((resolve) => (finish = () => resolve(60_000)));
    },
  });
  await vi.advanceTimersByTimeAsync(0);
  wake();
  finish();
  await vi.advanceTimersByTimeAsync(0);
  expect(runs).toBe(2);
  finish();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(runs).toBe(2);
  wake();
  await vi.advanceTimersByTimeAsync(0);
  expect(runs).toBe(3);
  finish();
  await loop.close();
});

test('a stop tells the work, waits for it, has it settle, says nothing of what it cut off, and asks it no more', async () => {
  const { loop, warnings } = makeLoop();
  const steps: string[] = [];
  loop.start({
    task: 'stop',
    run: (stopped) =>
      new Promise((_, reject) => {
        steps.push('run');
        stopped.addEventListener('abort', () => reject(new Error('cut off')));
      }),
    settle: async () => steps.push('settle'),
  });
  loop.start({ task: 'rest', run: async () => 3_600_000, settle: async () => steps.push('settle') });
  loop.start({ task: 'begin', firstMs: 3_600_000, run: async () => steps.push('never') });
  await vi.advanceTimersByTimeAsync(0);
  await loop.close();
  await vi.advanceTimersByTimeAsync(7_200_000);
  expect(steps).toEqual(['run', 'settle', 'settle']);
  expect(warnings).toEqual([]);
});

test('a stop does not wait for what hangs, and what cannot be saved then is told', async () => {
  const { loop, warnings } = makeLoop();
  loop.start({ task: 'hang', run: () => new Promise(() => {}) });
  loop.start({ task: 'save', run: async () => 3_600_000, settle: () => Promise.reject(new Error('away')) });
  await vi.advanceTimersByTimeAsync(0);
  const closed = loop.close();
  await vi.advanceTimersByTimeAsync(1_000);
  await closed;
  expect(warnings).toEqual(['cannot save; the server stops']);
});

/** Leases of a database, by the clock of the test. */
function makeLeases() {
  const held = new Map<string, { holder: string; until: number }>();
  let claims = 0;
  return {
    claims: () => claims,
    async claim(work: string, holder: string, forMs: number) {
      claims += 1;
      const now = held.get(work);
      if (now !== undefined && now.holder !== holder && now.until >= Date.now()) return false;
      held.set(work, { holder, until: Date.now() + forMs });
      return true;
    },
    async release(holder: string) {
      for (const [work, now] of held) if (now.holder === holder) held.delete(work);
    },
  };
}

test('one process at a time does work with a lease; another takes over at once after a stop, and after the lease where one hangs', async () => {
  const leases = makeLeases();
  const runs = [0, 0, 0];
  let hangs = false;
  const process = (n: number): DueWorkLoop => {
    const loop = new DueWorkLoop({ leases, onWarning: () => {} });
    loop.start({
      task: 'write',
      lease: { work: 'log', forMs: 10_000 },
      async run() {
        runs[n] = (runs[n] ?? 0) + 1;
        if (hangs) await new Promise(() => {});
        return 1_000;
      },
    });
    return loop;
  };
  const first = process(0);
  await vi.advanceTimersByTimeAsync(0);
  const second = process(1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toEqual([61, 0, 0]);
  // Renewed every five seconds, and asked for by the other one every second.
  expect(leases.claims()).toBeLessThan(80);
  await first.close();
  hangs = true;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(runs).toEqual([61, 1, 0]);
  hangs = false;
  const third = process(2);
  await vi.advanceTimersByTimeAsync(9_000);
  expect(runs[2]).toBe(0);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(runs[2]).toBeGreaterThan(0);
  const closed = Promise.all([second.close(), third.close()]);
  await vi.advanceTimersByTimeAsync(1_000);
  await closed;
});
