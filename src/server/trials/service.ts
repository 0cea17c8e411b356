/** Owns the timely end of trials: every server checks which trials end next, and the first server to act reverts each of them. */
import type { DueTrial, Trials } from '../store/contract/change/trials.ts';
import { StoreError } from '../problems.ts';

export interface TrialServiceOptions {
  readonly trials: Pick<Trials, 'next' | 'expire'>;
  readonly clock: () => number;
  /** Trials last ten seconds or longer, so that every server learns of each before it ends. */
  readonly lookEveryMs?: number | undefined;
  readonly onWarning: (message: string, cause: unknown) => void;
}

const defaultLookEveryMs = 4_000;
/** Trials that one look learns of; those that end later are seen by a later look. */
const mostNext = 256;
/** While a trial could not be reverted. */
const retryMs = 500;

/**
 * Looks again and again, and sleeps until the next trial ends where that is earlier. The transaction decides whether a trial is still
 * pending, so that several servers, and a person who confirms at the same moment, do not disturb each other.
 */
export class TrialService {
  readonly #options: TrialServiceOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looking: Promise<void> | undefined;
  #isClosed = false;
  /** The last look failed: one warning is enough for an outage of the database. */
  #isBlind = false;
  /** Trials that a server of a later version has to end: one warning is enough for each. */
  readonly #left = new Set<DueTrial['id']>();

  constructor(options: TrialServiceOptions) {
    this.#options = options;
    this.#sleep(0);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #sleep(ms: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#lookAndSleep();
    }, ms).unref();
  }

  async #lookAndSleep(): Promise<void> {
    this.#sleep(await this.#look());
  }

  /** Gives back for how long there is nothing to do. */
  async #look(): Promise<number> {
    const { trials, clock, onWarning, lookEveryMs = defaultLookEveryMs } = this.#options;
    try {
      const known = await trials.next(mostNext);
      this.#isBlind = false;
      let wait = lookEveryMs;
      for (const trial of known) {
        const left = trial.at - clock();
        if (left > 0) return Math.min(wait, left);
        if (!(await this.#expire(trial))) wait = retryMs;
      }
      return wait;
    } catch (cause) {
      if (!this.#isBlind) onWarning('cannot look for trials that end; the server keeps trying', cause);
      this.#isBlind = true;
      return lookEveryMs;
    }
  }

  /** Gives back whether there is nothing more to do here. */
  async #expire(trial: DueTrial): Promise<boolean> {
    try {
      await this.#options.trials.expire(trial);
      return true;
    } catch (cause) {
      if (cause instanceof StoreError && cause.code === 'newer_record') {
        if (!this.#left.has(trial.id))
          this.#options.onWarning(
            `a server of a later version has to revert the trial ${trial.id}, whose time is over`,
            cause,
          );
        this.#left.add(trial.id);
        return true;
      }
      this.#options.onWarning(`cannot revert the trial ${trial.id}, whose time is over`, cause);
      return false;
    }
  }
}
