/** Owns the waits for an informer's first complete copy. */

export class SyncWaiters {
  readonly #waiters = new Set<{ resolve: () => void; reject: (reason: unknown) => void }>();

  /** Resolves when `resolveAll` is called; rejects with `rejectAll`, or when the signal is aborted. */
  wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const done = (): void => {
        this.#waiters.delete(waiter);
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => waiter.reject(signal?.reason);
      const waiter = {
        resolve: (): void => {
          done();
          resolve();
        },
        reject: (reason: unknown): void => {
          done();
          reject(reason);
        },
      };
      this.#waiters.add(waiter);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  resolveAll(): void {
    for (const waiter of this.#waiters) waiter.resolve();
  }

  rejectAll(reason: unknown): void {
    for (const waiter of this.#waiters) waiter.reject(reason);
  }
}
