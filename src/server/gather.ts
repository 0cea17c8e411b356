/** Owns questions that many ask at once: one is in flight, and whoever asks meanwhile is answered by the next. */

interface Waiting<Key, Answer> {
  readonly key: Key;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (cause: unknown) => void;
}

/** How someone asks. */
export interface Asking {
  /** Can wait a few milliseconds for others to ask with: then thousands at once cost the database as much as a hundred. */
  readonly patient?: boolean;
}

/** More than this in one question gains nothing. */
const most = 1_000;

/** So long after the last question the next one goes out, where all who wait are patient. */
export const patienceMs = 10;

/**
 * A lone question goes out at once, and under load their number settles by itself. The read that answers a question always
 * begins after it was asked, so that an answer is never older than its question: a revoked token is refused at once.
 */
export class Gather<Key, Answer> {
  readonly #ask: (keys: readonly Key[]) => Promise<readonly Answer[]>;
  #waiting: Waiting<Key, Answer>[] = [];
  #asking = false;
  /** When the last question went out. */
  #began = Number.NEGATIVE_INFINITY;
  /** Somebody who waits is not patient. */
  #hurried = false;
  /** The next question has its time. */
  #due = false;

  /** `ask` gives an answer for each key, in their order. */
  constructor(ask: (keys: readonly Key[]) => Promise<readonly Answer[]>) {
    this.#ask = ask;
  }

  get(key: Key, { patient = false }: Asking = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve, reject });
      if (!patient) this.#hurried = true;
      this.#next();
    });
  }

  #next(): void {
    if (this.#asking || this.#waiting.length === 0) return;
    const wait = this.#hurried ? 0 : this.#began + patienceMs - performance.now();
    if (wait <= 0) void this.#run();
    else if (!this.#due) {
      this.#due = true;
      setTimeout(() => {
        this.#due = false;
        this.#next();
      }, wait);
    }
  }

  async #run(): Promise<void> {
    this.#asking = true;
    this.#began = performance.now();
    const asked = this.#waiting.slice(0, most);
    this.#waiting = this.#waiting.slice(most);
    // Whoever did not fit in has waited long enough.
    this.#hurried = this.#waiting.length > 0;
    await this.#answer(asked);
    this.#asking = false;
    this.#next();
  }

  async #answer(asked: readonly Waiting<Key, Answer>[]): Promise<void> {
    try {
      const answers = await this.#ask(asked.map(({ key }) => key));
      if (answers.length !== asked.length) throw new Error(`${answers.length} answers to ${asked.length} questions`);
      for (const [index, { resolve }] of asked.entries()) resolve(answers[index] as Answer);
    } catch (cause) {
      for (const { reject } of asked) reject(cause);
    }
  }
}
