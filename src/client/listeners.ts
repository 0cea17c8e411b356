/** Owns the handlers that are registered for one kind of event. */

/** Ends a registration. */
export type Unsubscribe = () => void;

export class Listeners<News> {
  readonly #handlers = new Set<{ readonly handler: (news: News) => void }>();
  readonly #onFault: (fault: unknown) => void;

  constructor(onFault: (fault: unknown) => void) {
    this.#onFault = onFault;
  }

  add(handler: (news: News) => void): Unsubscribe {
    // Wrapped, so that the same function registered twice is two registrations.
    const entry = { handler };
    this.#handlers.add(entry);
    return () => {
      this.#handlers.delete(entry);
    };
  }

  /** One handler's fault is not another's. */
  tell(news: News): void {
    for (const { handler } of this.#handlers) {
      try {
        handler(news);
      } catch (fault) {
        this.#onFault(fault);
      }
    }
  }
}
