/** Owns the news of the packet filter from the kernel: `nft monitor`, kept running. */
import type { Clock } from '../../client/clock.ts';
import { longestNewsLine, NewsReader, type News } from './monitor-events.ts';
import { Program } from '../host/supervised-process.ts';

export interface FilterMonitorOptions {
  readonly clock: Clock;
  /** The command line that nft is started through, such as one that enters a network namespace. */
  readonly prefix?: readonly string[];
  readonly program?: string;
  readonly onNews: (news: News) => void;
}

/**
 * Tells every change of the packet filter, a moment after it took effect. Whenever something may have been missed it
 * tells `lost`, also once at its start. Not filtered: only then does nft name the generation and its author.
 */
export class FilterMonitor {
  readonly #program: Program;

  constructor({ clock, prefix = [], program = 'nft', onNews }: FilterMonitorOptions) {
    let reader = new NewsReader();
    this.#program = new Program({
      clock,
      argv: [...prefix, program, 'monitor'],
      longestLine: longestNewsLine,
      onStart: () => {
        reader = new NewsReader();
        onNews({ kind: 'lost', why: 'the monitor has just been started' });
      },
      onLine: (line) => {
        const news = reader.read(line);
        if (news !== undefined) onNews(news);
      },
      onEnd: (why) => onNews({ kind: 'lost', why }),
    });
  }

  start(): void {
    this.#program.start();
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }
}
