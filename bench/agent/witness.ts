/**
 * Owns the witness of a benchmark: a monitor with a higher priority than every other program, which records when the
 * kernel's table changed.
 */
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { MonitorReader, type Generation } from '../../src/agent/kernel/monitor-events.ts';
import type { Namespace } from '../../dev/lab/namespace.ts';

export interface SeenGeneration {
  /** Milliseconds of the same clock as `now`. */
  readonly at: number;
  readonly generation: Generation;
}

/** The clock that the kernel and every process share, in milliseconds. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/**
 * Everything that happens to the table, by a monitor of our own. Its lines are stamped by a program that goes before every
 * other, because this process may be kept from its turn.
 */
export class Witness {
  readonly seen: SeenGeneration[] = [];
  #wake: () => void = () => {};

  constructor(namespace: Namespace, stamp: string) {
    const child = namespace.spawn(['chrt', '--fifo', '10', 'sh', '-c', `nft monitor | ${stamp}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (child.stdout === null) throw new Error('the monitor has no output');
    const reader = new MonitorReader();
    createInterface({ input: child.stdout }).on('line', (line) => {
      const end = line.indexOf(' ');
      const news = reader.read(line.slice(end + 1, end + 300));
      if (news?.kind !== 'generation') return;
      this.seen.push({ at: Number(line.slice(0, end)) / 1e6, generation: news.generation });
      this.#wake();
    });
  }

  /** The first such generation from that place on. */
  async next(from: number, wanted: (generation: Generation) => boolean): Promise<SeenGeneration> {
    for (;;) {
      const found = this.seen.slice(from).find(({ generation }) => wanted(generation));
      if (found !== undefined) return found;
      await Promise.race([new Promise<void>((resolve) => (this.#wake = resolve)), late()]);
    }
  }
}

const late = async (): Promise<never> => {
  await sleep(20_000, undefined, { ref: false });
  throw new Error('the kernel never changed');
};

/** Whether it turned inbound packets to other rules. */
export const flips = ({ change }: Generation): boolean =>
  change !== undefined && (change.tables.has('service') || change.chains.has('service-inbound'));
