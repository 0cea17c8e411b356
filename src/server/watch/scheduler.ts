/**
 * Owns the order in which organizations are served: those with work take turns with one slice each, so that none
 * starves another or new connections.
 */

export interface Task {
  /** Works for about so many units; true when there is more to do. */
  run(budget: number): boolean;
}

export class Scheduler<T extends Task> {
  readonly #slice: number;
  readonly #defer: (run: () => void) => void;
  #queue: Set<T> = new Set();
  #scheduled = false;

  constructor(options: { readonly slice: number; readonly defer: (run: () => void) => void }) {
    this.#slice = options.slice;
    this.#defer = options.defer;
  }

  add(task: T): void {
    this.#queue.add(task);
    this.#schedule();
  }

  remove(task: T): void {
    this.#queue.delete(task);
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.size === 0) return;
    this.#scheduled = true;
    this.#defer(() => this.#run());
  }

  /** One slice, shared by all tasks that have work. */
  #run(): void {
    this.#scheduled = false;
    const now = this.#queue;
    this.#queue = new Set();
    const share = Math.max(16, Math.ceil(this.#slice / Math.max(1, now.size)));
    for (const task of now) if (task.run(share)) this.#queue.add(task);
    this.#schedule();
  }
}
