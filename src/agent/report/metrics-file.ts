/** Owns the metrics file: it is rewritten completely, soon after a change and at regular intervals. */
import type { Clock } from '../../client/clock.ts';
import type { Log } from '../host/log.ts';
import { writeFileAtomically } from '../../node/atomic-write.ts';

export interface MetricsFileOptions {
  readonly path: string;
  readonly print: () => Promise<string>;
  readonly clock: Clock;
  readonly log: Log;
}

/** As often as metrics are usually collected. */
const every = 15_000;
const soon = 1_000;

export class MetricsFile {
  readonly #options: MetricsFileOptions;
  #cancel: (() => void) | undefined;
  #isSoon = false;
  #writing: Promise<void> = Promise.resolve();
  #trouble: string | undefined;
  #stopped = false;

  constructor(options: MetricsFileOptions) {
    this.#options = options;
    this.#plan(0);
  }

  /** Something changed. */
  touch(): void {
    if (this.#isSoon || this.#stopped) return;
    this.#isSoon = true;
    this.#plan(soon);
  }

  /** Writes a last time. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel?.();
    await this.#writing;
    await this.#write();
  }

  #plan(wait: number): void {
    this.#cancel?.();
    this.#cancel = this.#options.clock.after(wait, () => {
      this.#isSoon = false;
      this.#writing = this.#write().then(() => {
        if (!this.#stopped && !this.#isSoon) this.#plan(every);
      });
    });
  }

  async #write(): Promise<void> {
    const { path, print, log } = this.#options;
    try {
      // Others collect it.
      await writeFileAtomically(path, await print(), { mode: 0o644, durable: false });
      this.#trouble = undefined;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (message !== this.#trouble) log('warn', `cannot write the metrics file: ${message}`);
      this.#trouble = message;
    }
  }
}
