/** Owns how long to wait before the next attempt: exponential, capped, with full jitter, so that a fleet does not return as one. */

export interface BackoffOptions {
  /** Milliseconds: the longest first wait; 1 second unless given. */
  readonly first?: number;
  /** Milliseconds: the longest wait ever; 30 seconds unless given. */
  readonly longest?: number;
  /** Milliseconds: the longest that a server's own wish is obeyed; 5 minutes unless given. */
  readonly longestAsked?: number;
  readonly random: () => number;
}

export class Backoff {
  readonly #options: Required<BackoffOptions>;
  #failures = 0;

  constructor(options: BackoffOptions) {
    this.#options = { first: 1_000, longest: 30_000, longestAsked: 300_000, ...options };
  }

  /** Failures since the last reset. */
  get failures(): number {
    return this.#failures;
  }

  reset(): void {
    this.#failures = 0;
  }

  /** The wait after one more failure. What the server asks for is waited in full, with jitter on top. `most` may shorten the longest wait. */
  next(asked: number | undefined, most = Number.POSITIVE_INFINITY): number {
    const { first, longest, longestAsked, random } = this.#options;
    const ceiling = Math.min(longest, most, first * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return Math.min(asked ?? 0, longestAsked) + random() * ceiling;
  }
}
