/** Owns the timeout for an answer of nft: longer for a larger batch, and longer again after a timeout. */

/** Milliseconds for an answer to nothing much, on a busy machine. */
const least = 60_000;
/** Milliseconds for each byte of a batch: a hundred times what a quiet machine takes, since a busy one is no reason to give up. */
const perByte = 0.015;
const most = 30 * 60_000;

export class AdaptiveTimeout {
  readonly #least: number;
  /** Bytes of the largest batch so far: a listing of the table may be as long. */
  #largest = 0;
  #factor = 1;

  constructor(given = least) {
    this.#least = given;
  }

  /** Milliseconds for a batch of so many bytes; without a number, for a listing. */
  for(bytes = this.#largest): number {
    this.#largest = Math.max(this.#largest, bytes);
    return Math.min((this.#least + bytes * perByte) * this.#factor, most);
  }

  /** The timeout was too short: the next attempt waits twice as long. */
  grow(): void {
    this.#factor *= 2;
  }

  reset(): void {
    this.#factor = 1;
  }
}
