/**
 * Owns the one loop of a process for what becomes due by time: trials and isolations end, alerts are sent, old rows are removed. When
 * something is due is told by the rows that it is about, and nothing holds it a second time: each kind of work does what is due, and
 * says in how long to ask it again. No kind waits for another. Many processes do the same work at once: either its statements say who
 * does what, or one process at a time holds its lease.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export interface DueWork {
  /** What the server cannot do while this fails, in words that follow "cannot". */
  readonly task: string;
  /** One process of all servers does this at a time. Another one takes its place when it has not renewed its lease for so long. */
  readonly lease?: { readonly work: string; readonly forMs: number };
  /** Milliseconds until it is asked for the first time; absent: at once. */
  readonly firstMs?: number;
  /** Does what is due. Gives back after how many milliseconds to ask again. The signal: the process stops. */
  run(stopped: AbortSignal): Promise<number>;
  /** Ends what is under way, or saves it, when the process stops. */
  settle?(): Promise<unknown>;
}

export interface DueWorkOptions {
  readonly leases: {
    claim(work: string, holder: string, forMs: number): Promise<boolean>;
    release(holder: string): Promise<void>;
  };
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** After a failure. */
const retryMs = 1_000;
/** A lease that another process holds is asked for so often while it lasts. */
const asksOfLease = 10;
/** How long a stop waits for what runs. */
const stopWithinMs = 1_000;

export class DueWorkLoop {
  readonly #options: DueWorkOptions;
  readonly #holder = randomUUID();
  readonly #stopped = new AbortController();
  readonly #started: { readonly work: DueWork; readonly wake: () => void; readonly done: Promise<void> }[] = [];
  /** By lease that this process holds, when to renew it. */
  readonly #renewAt = new Map<string, number>();

  constructor(options: DueWorkOptions) {
    this.#options = options;
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
      if (!isWoken)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms).unref();
          endRest = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      isWoken = false;
    };
    this.#started.push({ work, wake, done: this.#repeat(work, rest) });
    return wake;
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    for (const { wake } of this.#started) wake();
    const done = Promise.all(this.#started.map((one) => one.done));
    await Promise.race([done, sleep(stopWithinMs, undefined, { ref: false })]);
    await Promise.all(this.#started.map(({ work }) => this.#settle(work)));
    if (this.#renewAt.size > 0) await this.#options.leases.release(this.#holder).catch(() => {});
  }

  async #settle(work: DueWork): Promise<void> {
    try {
      await work.settle?.();
    } catch (cause) {
      this.#warn(work, 'stops', cause);
    }
  }

  async #repeat(work: DueWork, rest: (ms: number) => Promise<void>): Promise<void> {
    const { signal } = this.#stopped;
    await rest(work.firstMs ?? 0);
    // One warning for each outage.
    for (let isFailing = false; !signal.aborted;) {
      let restMs = retryMs;
      try {
        const elsewhereMs = await this.#heldElsewhereMs(work);
        restMs = elsewhereMs ?? (await work.run(signal));
        isFailing = false;
      } catch (cause) {
        if (!isFailing && !signal.aborted) this.#warn(work, 'keeps trying', cause);
        isFailing = true;
      }
      await rest(restMs);
    }
  }

  /** In how long to ask again where another process does this work. A lease of this process is renewed when half of it is over. */
  async #heldElsewhereMs({ lease }: DueWork): Promise<number | undefined> {
    if (lease === undefined || performance.now() < (this.#renewAt.get(lease.work) ?? 0)) return undefined;
    const renewAt = performance.now() + lease.forMs / 2;
    if (!(await this.#options.leases.claim(lease.work, this.#holder, lease.forMs))) return lease.forMs / asksOfLease;
    this.#renewAt.set(lease.work, renewAt);
    return undefined;
  }

  #warn({ task }: DueWork, what: string, cause: unknown): void {
    this.#options.onWarning(`cannot ${task}; the server ${what}`, cause);
  }
}
