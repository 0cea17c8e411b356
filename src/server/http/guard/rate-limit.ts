/** Owns token buckets, one for each key, so that a runaway client slows only itself. */

export interface RateLimit {
  /** Requests a second that a key may go on making. 0: no limit. */
  readonly perSecond: number;
  /** Requests that it may make at once after a rest. */
  readonly burst: number;
}

interface Bucket {
  left: number;
  at: number;
}

/** Full buckets need no memory: they are swept when there are this many. */
const sweepAt = 10_000;
/** After a sweep there is room for as many again, so that sweeping costs little for each key. */
const keptBySweep = sweepAt / 2;

export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #clock: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limit: RateLimit, clock: () => number) {
    this.#limit = limit;
    this.#clock = clock;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Takes one request from the bucket: 0 when it may go on, else the whole seconds to wait. */
  take(key: string): number {
    const { perSecond, burst } = this.#limit;
    if (perSecond <= 0) return 0;
    const now = this.#clock();
    const bucket = this.#buckets.get(key) ?? this.#open(key, now);
    // A clock that was set back gives nothing, and takes nothing.
    const earned = (Math.max(0, now - bucket.at) / 1000) * perSecond;
    bucket.left = Math.min(burst, bucket.left + earned);
    bucket.at = now;
    if (bucket.left >= 1) {
      bucket.left -= 1;
      return 0;
    }
    return this.#waitOf(bucket.left);
  }

  /** The whole seconds until a request could be taken; takes none. */
  wait(key: string): number {
    const bucket = this.#buckets.get(key);
    const { perSecond } = this.#limit;
    if (bucket === undefined || perSecond <= 0) return 0;
    const left = bucket.left + (Math.max(0, this.#clock() - bucket.at) / 1000) * perSecond;
    return left >= 1 ? 0 : this.#waitOf(left);
  }

  #waitOf(left: number): number {
    return Math.max(1, Math.ceil((1 - left) / this.#limit.perSecond));
  }

  #open(key: string, now: number): Bucket {
    if (this.#buckets.size >= sweepAt) this.#sweep(now);
    const bucket = { left: this.#limit.burst, at: now };
    this.#buckets.set(key, bucket);
    return bucket;
  }

  #sweep(now: number): void {
    const { perSecond, burst } = this.#limit;
    for (const [key, bucket] of this.#buckets) {
      if (bucket.left + ((now - bucket.at) / 1000) * perSecond >= burst) this.#buckets.delete(key);
    }
    // Still crowded: forget the oldest. Their next request finds a full bucket, which is harmless.
    for (const key of this.#buckets.keys()) {
      if (this.#buckets.size <= keptBySweep) break;
      this.#buckets.delete(key);
    }
  }
}
