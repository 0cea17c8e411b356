/** Owns how long work behind the scenes holds the event loop: all of it together gets a short slice of each turn, one after the other. */

export interface TimeSlicesOptions {
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** Runs something in the next turn of the event loop, after what is due by then. */
  readonly defer: (run: () => void) => void;
}

/** Some times what a plain request takes: whoever comes meanwhile hardly notices. */
const sliceMs = 2;
/** While others are served: a request takes several turns of the event loop until it is answered, and each of them waits for a slice. */
const shortSliceMs = 0.5;
/** A turn of the event loop between two slices that took longer than this has served others. */
const idleTurnMs = 0.2;
/** Small pieces are done by the handful, because a look at the clock takes as long as some of them: up to so long, and so many. */
const handfulMs = 0.05;
const mostPieces = 16;

/**
 * Walks over whole fleets ask between two small pieces of work. However many of them there are, a turn of the event loop holds one slice,
 * and the one that has waited longest gets it. A slice is shorter while somebody else is served.
 */
export class TimeSlices {
  readonly #o: TimeSlicesOptions;
  readonly #waiting: (() => void)[] = [];
  #endsAt = Number.NEGATIVE_INFINITY;
  /** When a walk last saw that its slice was over. */
  #pausedAt = Number.NEGATIVE_INFINITY;
  #deferred = false;

  constructor(options: TimeSlicesOptions) {
    this.#o = options;
  }

  /** Undefined while the slice lasts; otherwise to be awaited before the next piece. */
  next(): Promise<void> | undefined {
    const now = this.#o.monotonic();
    if (now < this.#endsAt) return undefined;
    this.#pausedAt = now;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#schedule();
    });
  }

  /** Does something with each, a slice in each turn. What is added or taken away meanwhile does not count. */
  async each<T>(items: Iterable<T>, work: (item: T) => void): Promise<void> {
    let handful = 1;
    let done = 0;
    let begun = 0;
    const all = [...items];
    for (const item of all) {
      if (done === 0) {
        const next = this.next();
        if (next !== undefined) await next;
        begun = this.#o.monotonic();
      }
      work(item);
      done += 1;
      if (done < handful) continue;
      done = 0;
      const tookMs = this.#o.monotonic() - begun;
      handful = tookMs > handfulMs ? Math.max(1, handful >> 1) : Math.min(mostPieces, 2 * handful);
    }
  }

  #schedule(): void {
    if (this.#deferred) return;
    this.#deferred = true;
    this.#o.defer(() => {
      this.#deferred = false;
      const run = this.#waiting.shift();
      const now = this.#o.monotonic();
      const betweenMs = now - Math.max(this.#pausedAt, this.#endsAt);
      this.#endsAt = now + (betweenMs > idleTurnMs ? shortSliceMs : sliceMs);
      run?.();
      if (this.#waiting.length > 0) this.#schedule();
    });
  }
}

/** Those of a process. */
export const processSlices = (): TimeSlices =>
  new TimeSlices({ monotonic: () => performance.now(), defer: (run) => void setImmediate(run) });
