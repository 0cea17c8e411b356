/** Owns the client's clock. It is passed in, so that a test can advance time. */

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Runs once after that many milliseconds; the answer cancels it. */
  after(milliseconds: number, run: () => void): () => void;
}

/** A timer further away than this fires at once instead (its delay is 32 bits wide): so it is cut off here. */
const longestTimer = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (milliseconds, run) => {
    const timer = setTimeout(run, Math.min(Math.max(milliseconds, 0), longestTimer));
    return () => clearTimeout(timer);
  },
};

/** Resolves after that many milliseconds; rejects with the signal's reason as soon as it is aborted. */
export function sleep(clock: Clock, milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.after(milliseconds, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
