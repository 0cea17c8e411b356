/**
 * Owns the store's interface: what callers may ask of the database, and what the store promises about the answers.
 *
 * Promises, for everything below:
 * - **Revisions.** Each organization has one counter, shared by devices, groups and the organization's own record.
 *   Every changed resource takes a revision of its own. Revisions have no gaps and become visible in order: a reader
 *   that sees N+1 can read N. A write that changes nothing takes none and returns the current record.
 * - **Serial.** All writes to one organization, from any number of servers, happen one after the other. What an
 *   operation requires (membership, existence, uniqueness, phase limits, expected revision) holds at the moment it
 *   commits.
 * - **Own outcome.** Concurrent writes may share a transaction; the failure of one never changes another's outcome.
 * - **Durable.** A resolved write survives a crash of this process and of PostgreSQL. A write that failed with
 *   `outcome_unknown` may or may not have happened; one that failed with `unavailable` has not.
 * - **Errors.** Everything here fails with `StoreError` only.
 * - **Lists.** They are in the order of creation (ids are time-ordered) and page by `after`, the last id seen: a page
 *   never repeats or skips a record that existed throughout.
 */

/** Does work that grows with an organization in short steps, so that others are served in between. */
export interface ShortSteps {
  /** To be awaited before the next step; undefined where it can be done at once. */
  next(): Promise<void> | undefined;
  each<T>(items: Iterable<T>, work: (item: T) => void): Promise<void>;
  /** Without a wait where there are no more than `atOnce` steps. */
  run<T>(steps: Generator<void, T>, options?: { readonly atOnce?: number }): Promise<T>;
}
