/** Owns the measure of what the kernel takes for its own objects, which no control group counts in whole. */
import { spawn } from 'node:child_process';
import { eventually } from './eventually.ts';

/** What the kernel takes for its own objects, in megabytes, at most while this goes on: read by a process that does nothing else. */
export async function kernelPeakWhile(work: () => Promise<unknown>): Promise<number> {
  const watcher = spawn(process.execPath, ['-e', watching], { stdio: ['pipe', 'pipe', 'inherit'] });
  let said = '';
  watcher.stdout.on('data', (text: Buffer) => (said += text.toString()));
  const ended = new Promise((resolve) => watcher.once('close', resolve));
  try {
    await eventually('the watcher runs', () => said.includes('\n'));
    await work();
    watcher.stdin.end();
    await ended;
    const [before = Number.NaN, peak = Number.NaN] = said.split('\n').map(Number);
    return (peak - before) / 1_024;
  } finally {
    watcher.kill();
  }
}

/** Says what the kernel takes at its start, and at its end what it took at most. */
const watching = `
  const { readFileSync } = require('node:fs');
  const slab = () => Number(/^Slab: +([0-9]+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))[1]);
  let most = slab();
  process.stdout.write(most + '\\n');
  setInterval(() => { most = Math.max(most, slab()); }, 2);
  process.stdin.on('end', () => { process.stdout.write(most + '\\n', () => process.exit()); }).resume();
`;
