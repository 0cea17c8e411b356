/** Owns whose turn it is: channels with work are served in rounds, a slice at a time, so that none starves accepts or another. */

export interface Worker {
  /** Works for about so many units; true when there is more to do. */
  turn(budget: number): boolean;
}

export class Turns<W extends Worker> {
  readonly #slice: number;
  readonly #defer: (run: () => void) => void;
  #queue: Set<W> = new Set();
  #scheduled = false;

  constructor(options: { readonly slice: number; readonly defer: (run: () => void) => void }) {
    this.#slice = options.slice;
    this.#defer = options.defer;
  }

  want(worker: W): void {
    this.#queue.add(worker);
    this.#schedule();
  }

  drop(worker: W): void {
    this.#queue.delete(worker);
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.size === 0) return;
    this.#scheduled = true;
    this.#defer(() => this.#run());
  }

  /** One slice, shared by all who have work. */
  #run(): void {
    this.#scheduled = false;
    const now = this.#queue;
    this.#queue = new Set();
    const share = Math.max(16, Math.ceil(this.#slice / Math.max(1, now.size)));
    for (const worker of now) if (worker.turn(share)) this.#queue.add(worker);
    this.#schedule();
  }
}
