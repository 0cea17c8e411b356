/** Owns the coalescing of reads: one read answers all calls that come at about the same time. */

/** One way to ask. */
export interface CoalescedRead<Key, Value> {
  get(key: Key): Promise<Value>;
  /** Answers in the order of the keys. */
  getMany(keys: readonly Key[]): Promise<readonly Value[]>;
}

export interface CoalescerOptions<Key, Value> {
  /** Gives an answer for each key, in their order: all at once, or each as it comes. No key is there twice. */
  readonly read: (keys: readonly Key[]) => Promise<readonly Value[]> | readonly Promise<Value>[];
  /** Returns a unique name for a key; required when keys are not strings. */
  readonly nameOf?: (key: Key) => string;
  /** Whether reads run concurrently. By default a read waits for the one before it, so that under load more questions share it. */
  readonly concurrent?: boolean;
  /** A batched read begins this long after the last one began; 10 ms unless given. */
  readonly delayMs?: number;
  /** Time, and the two ways to run something later; those of Node if absent. */
  readonly timers?: Timers;
}

export interface Timers {
  readonly now: () => number;
  /** After what is already due in this turn of the event loop. */
  readonly defer: (run: () => void) => void;
  readonly later: (run: () => void, ms: number) => void;
}

/** More keys than this in one read gain nothing. */
const mostKeys = 1_000;

/** Of batched reads, unless given. */
export const batchDelayMs = 10;

const nodeTimers: Timers = {
  now: () => performance.now(),
  defer: (run) => void setImmediate(run),
  later: (run, ms) => void setTimeout(run, ms),
};

type Answers<Value> = ReadonlyMap<string, Value | Promise<Value>>;

/** Questions that one read will answer. */
interface Batch<Key, Value> {
  readonly keys: Map<string, Key>;
  readonly answers: Promise<Answers<Value>>;
  readonly settle: (answers: Promise<Answers<Value>>) => void;
  /** Someone waits for it who is not batched. */
  immediate: boolean;
}

/**
 * The read that answers a question always begins after the question, so that no answer is older than its question:
 * every server refuses a revoked token at once. Nothing is cached: a later question is read again. Questions of one
 * turn of the event loop, and those asked while a read is in flight, share a read; equal keys are read once. When a
 * read fails, only the questions that shared it fail.
 */
export class Coalescer<Key, Value> {
  /** For callers that need the answer as soon as possible. */
  readonly immediate: CoalescedRead<Key, Value> = this.#asking(true);
  /**
   * For those who come in thousands and can wait some milliseconds for each other, such as streams that reconnect: together they
   * cost the database as much as a hundred. A lone one does not wait, and an immediate one takes the batched ones along.
   */
  readonly batched: CoalescedRead<Key, Value> = this.#asking(false);
  readonly #o: CoalescerOptions<Key, Value>;
  readonly #timers: Timers;
  #waiting: Batch<Key, Value>[] = [];
  #reading = false;
  #deferred = false;
  /** A timer for the batched ones is set. */
  #timed = false;
  /** When the last read began. */
  #began = Number.NEGATIVE_INFINITY;

  constructor(options: CoalescerOptions<Key, Value>) {
    this.#o = options;
    this.#timers = options.timers ?? nodeTimers;
  }

  get #mustWait(): boolean {
    return this.#reading && this.#o.concurrent !== true;
  }

  #asking(immediate: boolean): CoalescedRead<Key, Value> {
    return {
      get: async (key) => {
        const name = this.#name(key);
        // `read` answers every key; the cast says so for answers that may themselves be undefined.
        return (await this.#join(name, key, immediate).answers).get(name) as Value | Promise<Value>;
      },
      getMany: async (keys) => {
        const joined = keys.map((key) => ({
          name: this.#name(key),
          batch: this.#join(this.#name(key), key, immediate),
        }));
        return Promise.all(
          joined.map(async ({ name, batch }) => (await batch.answers).get(name) as Value | Promise<Value>),
        );
      },
    };
  }

  #name(key: Key): string {
    return this.#o.nameOf?.(key) ?? String(key);
  }

  #join(name: string, key: Key, immediate: boolean): Batch<Key, Value> {
    const batch = this.#batchFor(name);
    batch.keys.set(name, key);
    batch.immediate ||= immediate;
    this.#schedule();
    return batch;
  }

  #batchFor(name: string): Batch<Key, Value> {
    const last = this.#waiting.at(-1);
    if (last !== undefined && (last.keys.size < mostKeys || last.keys.has(name))) return last;
    // A full batch has waited long enough.
    if (last !== undefined) last.immediate = true;
    let settle: Batch<Key, Value>['settle'] = () => {};
    const answers = new Promise<Answers<Value>>((resolve) => (settle = resolve));
    const batch: Batch<Key, Value> = { keys: new Map(), answers, settle, immediate: false };
    this.#waiting.push(batch);
    return batch;
  }

  /** Sees to it that the first batch begins at the end of this turn, or when the batched ones have waited. */
  #schedule(): void {
    if (this.#deferred || this.#mustWait) return;
    this.#deferred = true;
    this.#timers.defer(() => {
      this.#deferred = false;
      this.#beginWhenDue();
    });
  }

  #beginWhenDue(): void {
    const [first] = this.#waiting;
    if (first === undefined || this.#mustWait) return;
    const now = this.#timers.now();
    // Never longer than the batch delay, should the clock have been set back.
    const { delayMs = batchDelayMs } = this.#o;
    const wait = first.immediate ? 0 : Math.min(delayMs, this.#began + delayMs - now);
    if (wait <= 0) void this.#begin(first, now);
    else if (!this.#timed) {
      this.#timed = true;
      this.#timers.later(() => {
        this.#timed = false;
        first.immediate = true;
        this.#beginWhenDue();
      }, wait);
    }
  }

  async #begin(batch: Batch<Key, Value>, now: number): Promise<void> {
    this.#waiting.shift();
    this.#reading = true;
    this.#began = now;
    const answers = this.#read(batch.keys);
    batch.settle(answers);
    await answers.catch(() => {});
    this.#reading = false;
    this.#beginWhenDue();
  }

  async #read(keys: ReadonlyMap<string, Key>): Promise<Answers<Value>> {
    const answers = await this.#o.read([...keys.values()]);
    if (answers.length !== keys.size) throw new Error(`${answers.length} answers to ${keys.size} questions`);
    return new Map([...keys.keys()].map((name, index) => [name, answers[index] as Value | Promise<Value>]));
  }
}
