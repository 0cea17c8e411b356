/** Owns the monitoring of the packet filter through `nft monitor`, which it keeps running. */
import type { Clock } from '../../client/clock.ts';
import { longestMonitorLine, MonitorReader, type MonitorEvent } from './monitor-events.ts';
import { SupervisedProcess } from '../host/supervised-process.ts';

export interface FilterMonitorOptions {
  readonly clock: Clock;
  /** The command line that nft is started through, such as one that enters a network namespace. */
  readonly prefix?: readonly string[];
  readonly program?: string;
  readonly onEvent: (event: MonitorEvent) => void;
}

/**
 * Reports every change of the packet filter, a moment after it took effect. Whenever something may have been missed it
 * reports `lost`, also once at its start. Not filtered: only then does nft name the generation and its author.
 */
export class FilterMonitor {
  readonly #process: SupervisedProcess;

  constructor({ clock, prefix = [], program = 'nft', onEvent }: FilterMonitorOptions) {
    let reader = new MonitorReader();
    this.#process = new SupervisedProcess({
      clock,
      argv: [...prefix, program, 'monitor'],
      longestLine: longestMonitorLine,
      onStart: () => {
        reader = new MonitorReader();
        onEvent({ kind: 'lost', why: 'the monitor has just been started' });
      },
      onLine: (line) => {
        const event = reader.read(line);
        if (event !== undefined) onEvent(event);
      },
      onEnd: (why) => onEvent({ kind: 'lost', why }),
    });
  }

  start(): void {
    this.#process.start();
  }

  stop(): Promise<void> {
    return this.#process.stop();
  }
}
