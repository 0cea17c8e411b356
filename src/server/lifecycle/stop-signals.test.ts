/** Proves that signals of one key press count as one, and that no moment is without a listener. */
import { expect, onTestFinished, test } from 'vitest';
import { stopSignals } from './stop-signals.ts';

const signal = 'SIGUSR2';

test('two signals of one key press stop the process once, and a later one ends it at once', async () => {
  // Packages that other tests of this process load may listen too.
  const others = process.listeners(signal);
  onTestFinished(() => {
    for (const listener of process.listeners(signal)) if (!others.includes(listener)) process.off(signal, listener);
  });
  let time = 0;
  const codes: number[] = [];
  const stopped = stopSignals([signal], { now: () => time, exit: (code) => void codes.push(code) });
  process.emit(signal);
  // In the same turn of the event loop: without a listener, the kernel's own answer would end the process here.
  expect(process.listenerCount(signal)).toBe(others.length + 1);
  process.emit(signal);
  await stopped;
  expect(codes).toEqual([]);
  time = 501;
  process.emit(signal);
  expect(codes).toEqual([1]);
});
