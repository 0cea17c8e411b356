/**
 * Loaded into a program before its own code (`--import`): writes how much processor time each turn of its event loop took to the file
 * that `RINGFENCE_TURNS` names, where it was more than a few milliseconds. What else the machine does does not count.
 */
import { openSync, readSync, writeSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env.RINGFENCE_TURNS;
const leastMs = 5;

if (isMainThread && file !== undefined) {
  const turns = openSync(file, 'a');
  const schedstat = openSync('/proc/self/schedstat', 'r');
  const buffer = Buffer.alloc(100);
  const processorTime = () => {
    const length = readSync(schedstat, buffer, 0, buffer.length, 0);
    return Number(buffer.toString('latin1', 0, length).split(' ')[0]) / 1e6;
  };
  let before = processorTime();
  setInterval(() => {
    const now = processorTime();
    if (now - before >= leastMs) writeSync(turns, `${(now - before).toFixed(1)}\n`);
    before = now;
  }, 1).unref();
}
