/** Owns the measure of what the kernel takes for its own objects, which no control group counts in whole. */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { eventually } from './eventually.ts';

export interface KernelMemory {
  /** Megabytes when it began. What was freed a moment ago may still count. */
  readonly before: number;
  /** Megabytes at most while it went on. */
  readonly peak: number;
}

/**
 * What the kernel takes for its own objects while this goes on, without what it gives back on demand. Read by processes that do nothing else and go
 * before all others, because a peak is over in some milliseconds; on two processors, because the kernel leaves none to others while it is at work there.
 */
export async function kernelMemoryWhile(work: () => Promise<unknown>): Promise<KernelMemory> {
  const watchers = Array.from({ length: Math.min(2, availableParallelism()) }, (_, cpu) => new Watcher(cpu));
  try {
    await eventually('the watchers run', () => watchers.every(({ said }) => said.includes('\n')));
    await work();
    const seen = await Promise.all(watchers.map((each) => each.end()));
    return { before: Math.min(...seen.map(({ before }) => before)), peak: Math.max(...seen.map(({ peak }) => peak)) };
  } finally {
    for (const each of watchers) each.kill();
  }
}

class Watcher {
  said = '';
  readonly kill: () => boolean;
  readonly end: () => Promise<KernelMemory>;

  constructor(cpu: number) {
    const argv = ['-n', '-20', 'taskset', '-c', String(cpu), process.execPath, '-e', watching];
    const child = spawn('nice', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdout.on('data', (text: Buffer) => (this.said += text.toString()));
    const ended = new Promise((resolve) => child.once('close', resolve));
    this.kill = () => child.kill();
    this.end = async () => {
      child.stdin.end();
      await ended;
      const [before = Number.NaN, peak = Number.NaN] = this.said
        .split('\n')
        .map((kilobytes) => Number(kilobytes) / 1_024);
      return { before, peak };
    };
  }
}

/** Says what the kernel takes at its start, and at its end what it took at most. */
const watching = `
  const { readFileSync } = require('node:fs');
  const taken = () => Number(/^SUnreclaim: +([0-9]+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))[1]);
  let most = taken();
  process.stdout.write(most + '\\n');
  setInterval(() => { most = Math.max(most, taken()); }, 2);
  process.stdin.on('end', () => { process.stdout.write(most + '\\n', () => process.exit()); }).resume();
`;
