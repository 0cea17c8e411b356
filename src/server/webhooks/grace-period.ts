/** Owns whether the silence of devices counts: only when this process itself has listened for a while without interruption. No effects. */

/**
 * After a start, an outage of the database or a pause of the machine, all devices look as if they were away, until they have come back or the
 * servers have said which are connected.
 */
export class GracePeriod {
  readonly #settleMs: number;
  #since: number | undefined;
  #last = Number.NEGATIVE_INFINITY;

  constructor(settleMs: number) {
    this.#settleMs = settleMs;
  }

  /** To be asked often, with the time of day: whether nothing has interrupted this process for long enough. */
  isOver(now: number): boolean {
    const gap = now - this.#last;
    // Also a clock that was set back is a gap.
    if (this.#since === undefined || gap > this.#settleMs || gap < 0) this.#since = now;
    this.#last = now;
    return now - this.#since >= this.#settleMs;
  }

  /** The database could not be asked, or something else went wrong. */
  interrupted(): void {
    this.#since = undefined;
  }
}
