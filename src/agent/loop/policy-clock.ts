/**
 * Owns the time for rules that expire. A clock that is set back, while running or at a restart, does not extend a rule.
 */
import type { Clock } from '../../client/clock.ts';

export interface PolicyClockOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly monotonic: () => number;
}

/** A time of day, and when the monotonic clock saw it. */
interface Sample {
  readonly time: number;
  readonly seenAt: number;
}

/** Answers of a server tell its time in whole seconds, and arrive later: differences up to this are not worth a correction. */
const jitter = 5_000;
/** A clock that differs from the server's by more is reported. */
const mostOff = 60_000;

/**
 * The time is the latest of three: the device's clock; the server's clock, carried on by the monotonic one (before the server has
 * answered, the device's clock at the start, carried on in the same way); and the last moment at which a rule ended. So a clock that is
 * set back opens nothing again, and a clock that is set forward ends rules at once.
 */
export class PolicyClock {
  readonly #options: PolicyClockOptions;
  #steady: Sample;
  #server: Sample | undefined;
  #floor = Number.NEGATIVE_INFINITY;

  constructor(options: PolicyClockOptions) {
    this.#options = options;
    this.#steady = { time: options.clock.now(), seenAt: options.monotonic() };
  }

  /** Milliseconds since the epoch. */
  now(): number {
    return Math.max(this.#options.clock.now(), this.#carriedOn(this.#steady), this.#floor);
  }

  /** A rule ended at this moment, now or in an earlier run. */
  notBefore(moment: number): void {
    this.#floor = Math.max(this.#floor, moment);
  }

  /** The server has just answered, and this is what its clock shows. */
  serverTime(time: number): void {
    const expected = this.#server && this.#carriedOn(this.#server);
    if (expected !== undefined && time <= expected && expected - time <= jitter) return;
    this.#server = { time, seenAt: this.#options.monotonic() };
    this.#steady = this.#server;
  }

  /** Milliseconds by which the device's clock is ahead of the server's, or behind it where this is negative; absent until the server has answered. */
  get aheadOfServer(): number | undefined {
    return this.#server && this.#options.clock.now() - this.#carriedOn(this.#server);
  }

  /** The same, where it is so much that people should know. */
  get clockOff(): number | undefined {
    const ahead = this.aheadOfServer;
    return ahead === undefined || Math.abs(ahead) <= mostOff ? undefined : ahead;
  }

  #carriedOn({ time, seenAt }: Sample): number {
    return time + this.#options.monotonic() - seenAt;
  }
}
