/** Owns how long work behind the scenes holds the event loop: all of it together gets a short slice of each turn, one after the other. */

export interface TimeSlicesOptions {
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** Milliseconds that the event loop has worked so far, whatever for. */
  readonly worked: () => number;
  /** Runs something in the next turn of the event loop, after what is due by then. */
  readonly defer: (run: () => void) => void;
  /** Runs something after a rest of about `restMs`. */
  readonly rest: (run: () => void) => void;
}

/** Some times what a plain request takes: whoever comes meanwhile hardly notices. */
const sliceMs = 2;
/** While others are served: a request takes several turns of the event loop until it is answered, and each of them waits for a slice. */
const shortSliceMs = 0.5;
/** Where the event loop has worked for longer than this between two slices, it has served others. */
const idleTurnMs = 0.2;
/**
 * While others are served, slices are this far apart. All work behind the scenes together then takes about a quarter of the event loop and of the
 * processors: one organization's fleet cannot slow down the requests of others, however often its owner changes it.
 */
const restMs = 1.5;
/** Small pieces are done by the handful, because a look at the clock takes as long as some of them: up to so long, and so many. */
const handfulMs = 0.05;
const mostPieces = 16;

/** Work that pauses between small pieces: of nobody in particular (`TimeSlices`), or for one request (`WorkBudget`). */
export abstract class SlicedWork {
  protected abstract readonly monotonic: () => number;

  /** Undefined while the slice lasts; otherwise to be awaited before the next piece. */
  abstract next(): Promise<void> | undefined;

  /** Called before the first piece of a slice, and after its last one. */
  protected begin(): void {}
  protected pause(): void {}

  /** Does something with each, a slice in each turn. What is added or taken away meanwhile does not count. */
  async each<T>(items: Iterable<T>, work: (item: T) => void): Promise<void> {
    const all = [...items];
    function* pieces(): Generator<void, void> {
      for (const [index, item] of all.entries()) {
        if (index > 0) yield;
        work(item);
      }
    }
    await this.run(pieces());
  }

  /** Does the steps of a generator, as many in each turn as a slice holds. Where there are no more than `atOnce` of them, it does not wait for a slice. */
  async run<T>(steps: Generator<void, T>, { atOnce = 0 }: { readonly atOnce?: number } = {}): Promise<T> {
    for (let taken = 0; taken < atOnce; taken += 1) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
    let handful = 1;
    this.begin();
    for (;;) {
      const next = this.next();
      if (next !== undefined) {
        this.pause();
        await next;
        this.begin();
      }
      const begun = this.monotonic();
      let step = steps.next();
      for (let taken = 1; taken < handful && step.done !== true; taken += 1) step = steps.next();
      const tookMs = this.monotonic() - begun;
      if (step.done === true) {
        this.pause();
        return step.value;
      }
      handful = tookMs > handfulMs ? Math.max(1, handful >> 1) : Math.min(mostPieces, 2 * handful);
    }
  }
}

/**
 * Walks over whole fleets ask between two small pieces of work. However many of them there are, a turn of the event loop holds one slice,
 * and the one that has waited longest gets it. While others are served, a slice is shorter and a rest follows it.
 */
export class TimeSlices extends SlicedWork {
  readonly #o: TimeSlicesOptions;
  readonly #waiting: (() => void)[] = [];
  #endsAt = Number.NEGATIVE_INFINITY;
  /** How long the event loop had worked when the last slice was over. */
  #workedAtPause = 0;
  #servesOthers = false;
  #deferred = false;

  protected override readonly monotonic: () => number;

  constructor(options: TimeSlicesOptions) {
    super();
    this.#o = options;
    this.monotonic = options.monotonic;
  }

  override next(): Promise<void> | undefined {
    const now = this.#o.monotonic();
    if (now < this.#endsAt) return undefined;
    this.#workedAtPause = this.#o.worked();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#deferred) return;
    this.#deferred = true;
    const { defer, rest } = this.#o;
    (this.#servesOthers ? rest : defer)(() => this.#grant());
  }

  /** Gives the next slice to the walk that has waited longest. */
  #grant(): void {
    this.#deferred = false;
    const run = this.#waiting.shift();
    const worked = this.#o.worked();
    this.#servesOthers = worked - this.#workedAtPause > idleTurnMs;
    const lengthMs = this.#servesOthers ? shortSliceMs : sliceMs;
    this.#endsAt = this.#o.monotonic() + lengthMs;
    // Of a walk that is done before its slice is over; one that is not says so itself.
    this.#workedAtPause = worked + lengthMs;
    run?.();
    if (this.#waiting.length > 0) this.#schedule();
  }
}

/** Milliseconds of processor time of this process, all its threads together. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Those of a process. */
export const processSlices = (): TimeSlices =>
  new TimeSlices({
    monotonic: () => performance.now(),
    worked: () => performance.eventLoopUtilization().active,
    defer: (run) => void setImmediate(run),
    rest: (run) => void setTimeout(run, restMs),
  });
