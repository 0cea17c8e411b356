/**
 * Owns a queue that works in batches: work starts at once, and what arrives meanwhile is done together in the next
 * batch.
 */

export interface BatchQueueOptions {
  /** The first part begins at once; each of the others waits until there are so many, or until all have come. 1 unless given. */
  readonly least?: number;
}

/**
 * It promises that parts are done one after the other and hold everything in the order in which it came; and that after a part
 * that failed no other is begun.
 */
export class BatchQueue<T> {
  readonly #work: (part: readonly T[]) => Promise<void>;
  readonly #least: number;
  /** How many the next part waits for. */
  #wanted = 1;
  #waiting: T[] = [];
  #working: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(work: (part: readonly T[]) => Promise<void>, { least = 1 }: BatchQueueOptions = {}) {
    this.#work = work;
    this.#least = least;
  }

  /** What is added in one go is one part, at least. */
  add(items: readonly T[]): void {
    if (items.length === 0) return;
    for (const item of items) this.#waiting.push(item);
    this.#begin();
  }

  /** All have come. Resolves when everything that was added is done; fails as the part that failed. */
  async done(): Promise<void> {
    this.#wanted = 1;
    this.#begin();
    await this.#working;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #begin(): void {
    if (this.#waiting.length >= this.#wanted) this.#working ??= this.#run();
  }

  async #run(): Promise<void> {
    // What comes in the same go belongs to the same part.
    await Promise.resolve();
    while (this.#waiting.length >= this.#wanted && this.#failure === undefined) {
      const part = this.#waiting;
      this.#waiting = [];
      this.#wanted = this.#least;
      try {
        await this.#work(part);
      } catch (error) {
        this.#failure = { error };
      }
    }
    this.#working = undefined;
  }
}
