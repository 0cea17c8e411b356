/**
 * Owns the check whether a visible commit is also durable on the synchronous standbys.
 *
 * PostgreSQL shows a commit once it stops waiting for a standby, also when the wait was cancelled or the primary was
 * restarted meanwhile. A failover would undo such a commit. So streams hold it back until a later commit, made for this
 * purpose, is confirmed.
 */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Runner } from '../postgres/connection.ts';
import { asUnavailable } from '../postgres/failure.ts';
import { statement } from '../postgres/sql.ts';

/** The smallest write: what is confirmed after it includes all that was committed before it. */
const writeMark = statement<never>('write_mark', `SELECT pg_logical_emit_message(true, 'ringfence', '')`);

export class Durability {
  readonly #writes: Runner;
  readonly #confirmed = new Map<OrganizationId, number>();
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(writes: Runner) {
    this.#writes = writes;
  }

  /** A commit with this revision was acknowledged: so is all before it. */
  confirm(org: OrganizationId, revision: number): void {
    if (revision > (this.#confirmed.get(org) ?? 0)) this.#confirmed.set(org, revision);
  }

  /** Resolves when what was read is durable; fails with `unavailable` when that cannot be found out now. */
  async check(seen: readonly (readonly [OrganizationId, number])[]): Promise<void> {
    if (seen.every(([org, revision]) => revision <= (this.#confirmed.get(org) ?? 0))) return;
    await this.#mark();
    for (const [org, revision] of seen) this.confirm(org, revision);
  }

  /** One at a time. A mark that was begun before the question proves nothing, so the next one serves all who ask meanwhile. */
  #mark(): Promise<void> {
    this.#next ??= (this.#running ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        this.#running = this.#next;
        this.#next = undefined;
        return this.#writes.run(writeMark, []).catch((cause: unknown) => {
          throw asUnavailable(cause);
        });
      })
      .then(() => {});
    return this.#next;
  }
}
