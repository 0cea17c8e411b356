/** Owns the memory of a server while it is soaked: what all its processes have resident, PostgreSQL's aside. */
import { readFileSync } from 'node:fs';
import { median } from '../lib/goals.ts';

const read = (path: string): string => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
};

/** The process and its workers. */
function processesOf(pid: number): readonly number[] {
  const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
  return [pid, ...children.filter((child) => read(`/proc/${child}/cmdline`).includes('ringfence.mjs'))];
}

const residentOf = (pid: number): number => Number(/^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);

/** In MB, now. */
export const resident = (pid: number): number =>
  processesOf(pid).reduce((sum, one) => sum + residentOf(one), 0) / 1_024;

/** Sampled while it runs; `mean` over what has come since it was last asked. */
export class MemoryWatch {
  readonly #timer: NodeJS.Timeout;
  #samples: number[] = [];

  constructor(pid: number) {
    this.#timer = setInterval(() => this.#samples.push(resident(pid)), 250);
  }

  take(): number {
    const samples = this.#samples;
    this.#samples = [];
    return median(samples);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
