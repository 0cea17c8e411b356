/** Owns what the processes of a server know together of their database: the newest timeline that one of them has seen. */

/** A `SharedTimeline` of the store, in each of the processes. */
export class NewestTimeline {
  readonly #tell: (timeline: number) => void;
  readonly #listeners = new Set<(timeline: number) => void>();
  #newest = 0;

  /** `tell` passes it on to the other processes. */
  constructor(tell: (timeline: number) => void) {
    this.#tell = tell;
  }

  get newest(): number {
    return this.#newest;
  }

  saw(timeline: number): void {
    if (timeline <= this.#newest) return;
    this.hear(timeline);
    this.#tell(timeline);
  }

  /** Another process has seen it. */
  hear(timeline: number): void {
    if (timeline <= this.#newest) return;
    this.#newest = timeline;
    for (const listener of this.#listeners) listener(timeline);
  }

  listen(listener: (timeline: number) => void): void {
    this.#listeners.add(listener);
    listener(this.#newest);
  }
}
