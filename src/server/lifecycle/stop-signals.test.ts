/** Proves that signals of one key press count as one, and that no moment is without a listener. */
import { expect, onTestFinished, test } from 'vitest';
import { stopSignals } from './stop-signals.ts';

// Nothing else in this process listens to it. Packages that other tests load listen to SIGUSR2.
const signal = 'SIGPWR';

test('two signals of one key press stop the process once, and a later one ends it at once', async () => {
  onTestFinished(() => void process.removeAllListeners(signal));
  let time = 0;
  const codes: number[] = [];
  const stopped = stopSignals([signal], { now: () => time, exit: (code) => void codes.push(code) });
  process.emit(signal);
  // In the same turn of the event loop: without a listener, the kernel's own answer would end the process here.
  expect(process.listenerCount(signal)).toBe(1);
  process.emit(signal);
  await stopped;
  expect(codes).toEqual([]);
  time = 501;
  process.emit(signal);
  expect(codes).toEqual([1]);
});
