/**
 * Owns the one loop of a process for what becomes due by time: trials and isolations end, deliveries are sent, old rows are removed.
 * When something is due is told by the rows that it is about, and the loop holds none of it twice: each kind of work does what is due,
 * and says in how long to ask it again. No kind waits for another. Several processes may do the same work at once: each kind says in
 * its statements which process does what.
 */
export interface DueWork {
  /** What the server cannot do while this fails, in words that follow "cannot". */
  readonly task: string;
  /** Milliseconds until it is asked for the first time; absent: at once. */
  readonly firstMs?: number;
  /** Does what is due. Gives back after how many milliseconds to ask again. The signal ends what takes long when the process stops. */
  run(stopped: AbortSignal): Promise<number>;
  /** Ends what is under way, after the last `run`. */
  settle?(): Promise<unknown>;
}

/** After a failure. */
const retryMs = 1_000;

export class DueWorkLoop {
  readonly #onWarning: (message: string, cause: unknown) => void;
  readonly #stopped = new AbortController();
  readonly #wakes = new Set<() => void>();
  readonly #working: Promise<void>[] = [];

  constructor(onWarning: (message: string, cause: unknown) => void) {
    this.#onWarning = onWarning;
  }

  /** Gives back what asks this work again at once, or as soon as it has done what it does now. */
  start(work: DueWork): () => void {
    let isWoken = false;
    let endRest = (): void => {};
    const wake = (): void => {
      isWoken = true;
      endRest();
    };
    const rest = async (ms: number): Promise<void> => {
      if (!isWoken && !this.#stopped.signal.aborted)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms).unref();
          endRest = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      isWoken = false;
    };
    this.#wakes.add(wake);
    this.#working.push(this.#repeat(work, rest));
    return wake;
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    for (const wake of this.#wakes) wake();
    await Promise.all(this.#working);
  }

  async #repeat(work: DueWork, rest: (ms: number) => Promise<void>): Promise<void> {
    const { signal } = this.#stopped;
    await rest(work.firstMs ?? 0);
    // One warning for each outage.
    for (let isFailing = false; !signal.aborted;) {
      let restMs = retryMs;
      try {
        restMs = await work.run(signal);
        isFailing = false;
      } catch (cause) {
        if (!isFailing && !signal.aborted) this.#onWarning(`cannot ${work.task}; the server keeps trying`, cause);
        isFailing = true;
      }
      await rest(restMs);
    }
    await work.settle?.();
  }
}
