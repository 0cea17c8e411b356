/**
 * Owns the order of writes: one transaction in flight per organization, and what arrives meanwhile goes into the next one together.
 *
 * Writers of one organization queue on its row in `heads`, and a crowd of them makes each other slower. So a server
 * sends one at a time; there is no timer to wait for: an idle organization's write goes out at once.
 *
 * Two kinds of write:
 * - `quick`: one statement that decides everything by itself. Alone it is its own transaction. Its snapshot may be older than the lock
 *   it then waits for, so it compares the version it saw with the version it updates, changes nothing when they
 *   differ, and is repeated under the lock (`stale`).
 * - `careful`: several statements with thought in between, run under the lock, behind a savepoint.
 *
 * One write's failure is its own. A refusal is an answer, not an error, so it spoils nothing. An SQL error, which no
 * write should meet, takes the shared transaction back, and its writes are run again one by one.
 */
import type { OrganizationId } from '../../policy/ids.ts';
import type { Lanes, Runner, Transactions } from './connection.ts';
import { StoreError } from './errors.ts';
import { toStoreError } from './failure.ts';
import { statement, type Statement, type Value } from './sql.ts';

export const stale = Symbol('stale');

export interface QuickWrite<T> {
  readonly kind: 'quick';
  readonly statement: Statement<unknown>;
  readonly values: readonly Value[];
  /** Reads the answer: the result, a refusal (throws), or `stale`. */
  readonly decode: (rows: readonly unknown[]) => T | typeof stale;
}

export interface CarefulWrite<T> {
  readonly kind: 'careful';
  readonly run: (tx: Runner) => Promise<T>;
}

export type Write<T> = QuickWrite<T> | CarefulWrite<T>;

/** A quick write whose rows are typed; the statement and its reader belong together. */
export const quick = <Row, T>(
  text: Statement<Row>,
  values: readonly Value[],
  decode: (rows: readonly Row[]) => T | typeof stale,
): QuickWrite<T> => ({
  kind: 'quick',
  statement: text,
  values,
  decode: decode as QuickWrite<T>['decode'],
});

export const careful = <T>(run: (tx: Runner) => Promise<T>): CarefulWrite<T> => ({ kind: 'careful', run });

interface Pending {
  readonly write: Write<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (cause: unknown) => void;
}

type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly cause: unknown };

const lockHead = statement<{ revision: number }>(
  'lock_head',
  'SELECT revision FROM heads WHERE org_id = $1 FOR NO KEY UPDATE',
);
const savepoint = statement<never>('savepoint', 'SAVEPOINT write');
const release = statement<never>('release', 'RELEASE SAVEPOINT write');
const undo = statement<never>('undo', 'ROLLBACK TO SAVEPOINT write');

/** Bounds of one transaction: writes, and bytes of their values. */
const maxBatch = 256;
const maxBatchBytes = 4 << 20;
/** Bound of what waits for one organization; beyond it callers are told to come back. */
const maxWaiting = 20_000;

const bytesOf = (write: Write<unknown>): number =>
  write.kind === 'careful'
    ? 0
    : write.values.reduce<number>((sum, value) => sum + (typeof value === 'string' ? value.length : 8), 0);

export class Writer {
  readonly #lanes: Lanes;
  readonly #transactions: Transactions;
  readonly #committed: (org: OrganizationId) => void;
  readonly #waiting = new Map<OrganizationId, Pending[]>();
  #idle: (() => void) | undefined;

  constructor(parts: { lanes: Lanes; transactions: Transactions; committed: (org: OrganizationId) => void }) {
    this.#lanes = parts.lanes;
    this.#transactions = parts.transactions;
    this.#committed = parts.committed;
  }

  write<T>(org: OrganizationId, write: Write<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const pending: Pending = { write, resolve: resolve as (value: unknown) => void, reject };
      const waiting = this.#waiting.get(org);
      if (waiting === undefined) {
        this.#waiting.set(org, []);
        void this.#drain(org, [pending]);
      } else if (waiting.length < maxWaiting) waiting.push(pending);
      else reject(new StoreError({ code: 'unavailable' }, { message: 'too many writes wait for one organization' }));
    });
  }

  /** Resolves when nothing is in flight. */
  async settle(): Promise<void> {
    if (this.#waiting.size > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
  }

  async #drain(org: OrganizationId, first: readonly Pending[]): Promise<void> {
    for (let batch = first; batch.length > 0; batch = this.#next(org)) {
      const outcomes = await this.#attempt(org, batch);
      if (outcomes.some(({ ok }) => ok)) this.#committed(org);
      batch.forEach((pending, index) => {
        const outcome = outcomes[index];
        if (outcome === undefined) pending.reject(new StoreError({ code: 'unexpected' }));
        else if (outcome.ok) pending.resolve(outcome.value);
        else pending.reject(toStoreError(outcome.cause));
      });
    }
    this.#waiting.delete(org);
    if (this.#waiting.size === 0) this.#idle?.();
  }

  #next(org: OrganizationId): readonly Pending[] {
    const waiting = this.#waiting.get(org) ?? [];
    let count = 0;
    for (let bytes = 0; count < Math.min(waiting.length, maxBatch) && bytes < maxBatchBytes; count += 1) {
      const pending = waiting[count];
      if (pending !== undefined) bytes += bytesOf(pending.write);
    }
    return waiting.splice(0, count);
  }

  /** Never rejects: every write gets its own outcome. */
  async #attempt(org: OrganizationId, batch: readonly Pending[]): Promise<readonly Outcome[]> {
    const writes = batch.map(({ write }) => write);
    const [only] = writes;
    if (writes.length === 1 && only !== undefined) return [await this.#alone(org, only)];
    try {
      const outcomes = await this.#together(org, writes);
      if (outcomes !== undefined) return outcomes;
    } catch (cause) {
      // The connection went: whether it committed is unknown, and running it again could do it twice.
      return writes.map(() => ({ ok: false, cause }));
    }
    const outcomes: Outcome[] = [];
    for (const write of writes) outcomes.push(await this.#alone(org, write));
    return outcomes;
  }

  async #alone(org: OrganizationId, write: Write<unknown>): Promise<Outcome> {
    try {
      if (write.kind === 'quick') {
        const value = write.decode(await this.#lanes.run(write.statement, write.values));
        if (value !== stale) return { ok: true, value };
      }
      const [outcome] = (await this.#interleaved(org, [write])) ?? [];
      return outcome ?? { ok: false, cause: new StoreError({ code: 'unexpected' }) };
    } catch (cause) {
      return { ok: false, cause };
    }
  }

  /** Undefined when the transaction was taken back because of an SQL error; throws when its fate is unknown. */
  #together(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<readonly Outcome[] | undefined> {
    return writes.every(({ kind }) => kind === 'quick') ? this.#pipelined(org, writes) : this.#interleaved(org, writes);
  }

  /** All quick: everything is sent in one piece, the commit included. */
  async #pipelined(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<readonly Outcome[] | undefined> {
    const quickOnes = writes.filter((write) => write.kind === 'quick');
    const { rows, committed } = await this.#lanes.batch([{ statement: lockHead, values: [org] }, ...quickOnes]);
    if (!committed) {
      const passing = rows.find(
        (answer) => answer.status === 'rejected' && toStoreError(answer.reason).code === 'unavailable',
      );
      if (passing?.status === 'rejected') throw passing.reason;
      return undefined;
    }
    return quickOnes.map((write, index): Outcome => {
      const answer = rows[index + 1];
      if (answer?.status !== 'fulfilled') return { ok: false, cause: answer?.reason };
      return decoded(write, answer.value);
    });
  }

  async #interleaved(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<readonly Outcome[] | undefined> {
    const broken = { cause: undefined as unknown };
    try {
      return await this.#transactions.run(async (tx) => {
        await tx.run(lockHead, [org]);
        const outcomes: Outcome[] = [];
        for (const write of writes) {
          try {
            if (write.kind === 'quick') outcomes.push(decoded(write, await tx.run(write.statement, write.values)));
            else outcomes.push(await contained(tx, write));
          } catch (cause) {
            broken.cause = cause;
            throw cause;
          }
        }
        return outcomes;
      });
    } catch (cause) {
      const { code } = toStoreError(cause);
      // Rolled back for sure when a statement failed with a state of its own: alone, each write meets its own error.
      if (broken.cause === cause && code !== 'unavailable') {
        return writes.length === 1 ? [{ ok: false, cause }] : undefined;
      }
      throw cause;
    }
  }
}

function decoded(write: QuickWrite<unknown>, rows: readonly unknown[]): Outcome {
  try {
    const value = write.decode(rows);
    if (value === stale) throw new StoreError({ code: 'unexpected' }, { message: 'a write under the lock was stale' });
    return { ok: true, value };
  } catch (cause) {
    return { ok: false, cause };
  }
}

/** Runs a careful write behind a savepoint: refused or failed, it leaves no trace in the transaction it shares. */
async function contained(tx: Runner, write: CarefulWrite<unknown>): Promise<Outcome> {
  await tx.run(savepoint, []);
  try {
    const value = await write.run(tx);
    await tx.run(release, []);
    return { ok: true, value };
  } catch (cause) {
    if (toStoreError(cause).code === 'unavailable') throw cause;
    await tx.run(undo, []);
    return { ok: false, cause };
  }
}
