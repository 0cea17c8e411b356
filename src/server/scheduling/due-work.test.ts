/** Proves the loop of due work: nothing waits for anything else, a failure is told once, and a stop leaves nothing under way. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DueWorkLoop } from './due-work.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function makeLoop() {
  const warnings: string[] = [];
  return { warnings, loop: new DueWorkLoop((message) => warnings.push(message)) };
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
