/** Owns questions that many ask at once: one is in flight, and whoever asks meanwhile is answered by the next. */

interface Waiting<Key, Answer> {
  readonly key: Key;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (cause: unknown) => void;
}

/** More than this in one question gains nothing. */
const most = 500;

/**
 * No timer: a lone question goes out at once, and under load their number settles by itself. The read that answers a question always
 * begins after it was asked, so that an answer is never older than its question: a revoked token is refused at once.
 */
export class Gather<Key, Answer> {
  readonly #ask: (keys: readonly Key[]) => Promise<readonly Answer[]>;
  #waiting: Waiting<Key, Answer>[] = [];
  #asking = false;

  /** `ask` gives an answer for each key, in their order. */
  constructor(ask: (keys: readonly Key[]) => Promise<readonly Answer[]>) {
    this.#ask = ask;
  }

  get(key: Key): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve, reject });
      if (!this.#asking) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#asking = true;
    while (this.#waiting.length > 0) {
      const asked = this.#waiting.slice(0, most);
      this.#waiting = this.#waiting.slice(most);
      await this.#answer(asked);
    }
    this.#asking = false;
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
