/** Owns work that begins while more of it still comes: all that has come by then is done together, part after part. */

/**
 * It promises that parts are done one after the other and hold everything in the order in which it came; and that after a part
 * that failed no other is begun.
 */
export class BatchQueue<T> {
  readonly #work: (part: readonly T[]) => Promise<void>;
  #waiting: T[] = [];
  #working: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(work: (part: readonly T[]) => Promise<void>) {
    this.#work = work;
  }

  /** What is added in one go is one part, at least. */
  add(items: readonly T[]): void {
    if (items.length === 0) return;
    for (const item of items) this.#waiting.push(item);
    this.#working ??= this.#run();
  }

  /** Resolves when everything that was added is done; fails as the part that failed. */
  async done(): Promise<void> {
    await this.#working;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #run(): Promise<void> {
    // What comes in the same go belongs to the same part.
    await Promise.resolve();
    while (this.#waiting.length > 0 && this.#failure === undefined) {
      const part = this.#waiting;
      this.#waiting = [];
      try {
        await this.#work(part);
      } catch (error) {
        this.#failure = { error };
      }
    }
    this.#working = undefined;
  }
}
