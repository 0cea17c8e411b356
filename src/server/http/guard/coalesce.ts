/** Owns lookups that one turn of the event loop shares: many requests that arrive together ask the database once. */

/**
 * Within one turn the same key is looked up once, and everyone who asked gets that outcome. Nothing is kept beyond the turn, so an
 * answer is never older than the request that gets it: a revoked token is refused at once, on every server.
 */
export class CoalescedReads<T> {
  readonly #asked = new Map<string, Promise<T>>();

  get(key: string, look: () => Promise<T>): Promise<T> {
    const shared = this.#asked.get(key);
    if (shared !== undefined) return shared;
    if (this.#asked.size === 0) setImmediate(() => this.#asked.clear());
    const asked = look();
    this.#asked.set(key, asked);
    return asked;
  }
}
