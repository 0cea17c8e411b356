/**
 * Owns the time for rules that expire. A clock that is set back, while running or at a restart, does not extend a rule.
 */
import type { Clock } from '../../client/clock.ts';
import type { SavedTime } from '../state/saved-time.ts';

export interface PolicyClockOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly monotonic: () => number;
}

/** Milliseconds since the epoch: for rules and trials, and for isolations. */
export interface PolicyMoment {
  readonly at: number;
  readonly isolationsAt: number;
}

/** A time of day, and when the monotonic clock saw it. */
interface Sample {
  readonly time: number;
  readonly seenAt: number;
}

/** Answers of a server tell its time in whole seconds, and arrive later: differences up to this are not worth a correction. */
export const jitter = 5_000;
/** A clock that differs from the server's by more is reported. */
const mostOff = 60_000;

/**
 * The time is the latest of these: the device's clock; the server's clock, carried on by the monotonic one; and the last moment at which a
 * rule or a trial ended. Before the server has answered, the device's clock at the start takes the second place, the furthest time that the last run
 * saved, or the device's clock with the difference to the server that the last run saw. So a clock that is set back opens nothing again and
 * prolongs nothing beyond what the state knows, and a clock that is set forward ends rules at once.
 */
export class PolicyClock {
  readonly #options: PolicyClockOptions;
  #steady: Sample;
  #server: Sample | undefined;
  #floor = Number.NEGATIVE_INFINITY;
  /** By how much the server's clock was ahead of the device's in the last run. */
  #offset: number | undefined;
  /** What holds until the server has answered: the server's time by that difference, and moments that only it has reached. */
  #guess: Sample | undefined;
  #presumed = Number.NEGATIVE_INFINITY;

  constructor(options: PolicyClockOptions) {
    this.#options = options;
    this.#steady = { time: options.clock.now(), seenAt: options.monotonic() };
  }

  /** Milliseconds since the epoch. */
  now(): number {
    return Math.max(this.#certain(), this.#presumed, this.#guess ? this.#carriedOn(this.#guess) : this.#presumed);
  }

  /**
   * The moment at which a policy is looked at. Rules and trials end by the latest time, so that no clock prolongs them. An isolation ends by the server's
   * time once the server has answered, carried on without it: a clock that is set forward, perhaps by the isolated device itself, ends none early.
   * Before that, the device's clock has to do, less what it was ahead of the server's in the last run. Nothing that is only presumed ends one.
   */
  get moment(): PolicyMoment {
    const isolationsAt =
      this.#server === undefined ? this.#certain() + Math.min(0, this.#offset ?? 0) : this.#carriedOn(this.#server);
    return { at: this.now(), isolationsAt };
  }

  /** A rule or a trial has ended at this moment, which has come. It stays so, unless the moment was only presumed. */
  passed(moment: number): void {
    if (moment > this.#certain()) this.presume(moment);
    else this.#floor = Math.max(this.#floor, moment);
  }

  /** This moment may have come, and nobody can tell: it counts as past until the server has answered. */
  presume(moment: number): void {
    this.#presumed = Math.max(this.#presumed, moment);
  }

  /** Takes up what the last run knew. The time goes on from there at the least, until the server has answered: the last run's clock may have been ahead. */
  resume({ time, offset }: SavedTime): void {
    if (this.#server !== undefined) return;
    const seenAt = this.#options.monotonic();
    this.#offset = offset;
    if (time > this.#carriedOn(this.#steady)) this.#steady = { time, seenAt };
    if (offset > 0) this.#guess = { time: this.#options.clock.now() + offset, seenAt };
  }

  /** What the next run has to know, should the device's clock be set back by then. */
  get saved(): SavedTime {
    const ahead = this.aheadOfServer;
    return { time: this.#certain(), offset: ahead === undefined ? (this.#offset ?? 0) : -ahead };
  }

  /** The server has just answered, and this is what its clock shows. */
  serverTime(time: number): void {
    const expected = this.#server && this.#carriedOn(this.#server);
    if (expected !== undefined && time <= expected && expected - time <= jitter) return;
    this.#server = { time, seenAt: this.#options.monotonic() };
    this.#steady = this.#server;
    this.#guess = undefined;
    this.#presumed = Number.NEGATIVE_INFINITY;
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

  /** Without what is only presumed. */
  #certain(): number {
    return Math.max(this.#options.clock.now(), this.#carriedOn(this.#steady), this.#floor);
  }

  #carriedOn({ time, seenAt }: Sample): number {
    return time + this.#options.monotonic() - seenAt;
  }
}
