/**
 * Owns the order of writes: one transaction in flight per organization, and what arrives meanwhile goes into the next one together.
 *
 * Writers of one organization queue on its row in `heads`, and a crowd of them makes each other slower. So a server
 * sends one at a time; there is no timer to wait for: an idle organization's write goes out at once.
 *
 * Two kinds of write:
 * - `quick`: decided and done by one statement. Alone it is its own transaction. Its snapshot may be older than the lock it then
 *   waits for, so the statement compares the version it saw with the version it updates, changes nothing when they
 *   differ (no row comes back), and is repeated under the lock. Those that came together go as sets.
 * - `careful`: several statements with thought in between, run under the lock, behind a savepoint.
 *
 * One write's failure is its own. A refusal is an answer, not an error, so it spoils nothing. An SQL error, which no
 * write should meet, takes the shared transaction back, and its writes are run again one by one.
 */
import type { OrganizationId } from '../../policy/ids.ts';
import type { Lanes, Runner, Transactions } from './connection.ts';
import { StoreError } from './errors.ts';
import { toStoreError } from './failure.ts';
import type { QuickRow, QuickWrite } from './quick.ts';
import { statement } from './sql.ts';
import { inWaves, setValues, type QuickSet } from './waves.ts';

export interface CarefulWrite<T> {
  readonly kind: 'careful';
  readonly run: (tx: Runner) => Promise<T>;
}

export type Write<T> = QuickWrite<T> | CarefulWrite<T>;

export const careful = <T>(run: (tx: Runner) => Promise<T>): CarefulWrite<T> => ({ kind: 'careful', run });

interface Pending {
  readonly write: Write<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (cause: unknown) => void;
}

type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly cause: unknown };
type Outcomes = ReadonlyMap<Write<unknown>, Outcome>;

const lockHead = statement<{ revision: number }>(
  'lock_head',
  'SELECT revision FROM heads WHERE org_id = $1 FOR NO KEY UPDATE',
);
const savepoint = statement<never>('savepoint', 'SAVEPOINT write');
const release = statement<never>('release', 'RELEASE SAVEPOINT write');
const undo = statement<never>('undo', 'ROLLBACK TO SAVEPOINT write');

/** Bounds of one transaction: writes, and characters of their values. */
const maxBatch = 512;
const maxBatchSize = 4 << 20;
/** Bound of what waits for one organization; beyond it callers are told to come back. */
const maxWaiting = 20_000;

const sizeOf = (write: Write<unknown>): number =>
  write.kind === 'careful'
    ? 0
    : Object.values(write.item).reduce<number>((sum, value) => sum + (typeof value === 'string' ? value.length : 8), 0);

const gone = (): StoreError => new StoreError({ code: 'not_found', what: 'organization' });

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
      const outcomes = await this.#attempt(
        org,
        batch.map(({ write }) => write),
      );
      if ([...outcomes.values()].some(({ ok }) => ok)) this.#committed(org);
      for (const { write, resolve, reject } of batch) {
        const outcome = outcomes.get(write) ?? { ok: false, cause: new StoreError({ code: 'unexpected' }) };
        if (outcome.ok) resolve(outcome.value);
        else reject(toStoreError(outcome.cause));
      }
    }
    this.#waiting.delete(org);
    if (this.#waiting.size === 0) this.#idle?.();
  }

  #next(org: OrganizationId): readonly Pending[] {
    const waiting = this.#waiting.get(org) ?? [];
    let count = 0;
    for (let size = 0; count < Math.min(waiting.length, maxBatch) && size < maxBatchSize; count += 1) {
      const pending = waiting[count];
      if (pending !== undefined) size += sizeOf(pending.write);
    }
    return waiting.splice(0, count);
  }

  /** Never rejects: every write gets its own outcome. */
  async #attempt(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<Outcomes> {
    const [only] = writes;
    if (writes.length === 1 && only !== undefined) return new Map([[only, await this.#alone(org, only)]]);
    try {
      const outcomes = await this.#together(org, writes);
      if (outcomes !== undefined) return outcomes;
    } catch (cause) {
      // The connection went: whether it committed is unknown, and running it again could do it twice.
      return new Map(writes.map((write) => [write, { ok: false, cause }]));
    }
    const outcomes = new Map<Write<unknown>, Outcome>();
    for (const write of writes) outcomes.set(write, await this.#alone(org, write));
    return outcomes;
  }

  async #alone(org: OrganizationId, write: Write<unknown>): Promise<Outcome> {
    try {
      if (write.kind === 'quick') {
        const { operation, item } = write;
        const [row] = await this.#lanes.run(operation.one, [
          org,
          ...operation.columns.map((column) => item[column] ?? null),
        ]);
        // No row: the organization changed under the statement, or does not exist. Under the lock it will be clear.
        if (row !== undefined) return decoded(write, row);
      }
      const outcomes = await this.#interleaved(org, [write]);
      return outcomes?.get(write) ?? { ok: false, cause: new StoreError({ code: 'unexpected' }) };
    } catch (cause) {
      return { ok: false, cause };
    }
  }

  /** Undefined when the transaction was taken back because of an SQL error; throws when its fate is unknown or time may heal it. */
  #together(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<Outcomes | undefined> {
    const quick = writes.filter((write) => write.kind === 'quick');
    return quick.length === writes.length ? this.#pipelined(org, quick) : this.#interleaved(org, writes);
  }

  /** All quick: everything is sent in one piece, the commit included. */
  async #pipelined(org: OrganizationId, writes: readonly QuickWrite<unknown>[]): Promise<Outcomes | undefined> {
    const sets = inWaves(writes).flat();
    const statements = sets.map((set) => ({ statement: set.operation.many, values: setValues(org, set) }));
    const { rows, committed } = await this.#lanes.batch([{ statement: lockHead, values: [org] }, ...statements]);
    const failed = rows.find((answer) => answer.status === 'rejected');
    if (!committed || failed?.status === 'rejected') {
      const passing = rows.find(
        (answer) => answer.status === 'rejected' && toStoreError(answer.reason).code === 'unavailable',
      );
      if (passing?.status === 'rejected') throw passing.reason;
      return undefined;
    }
    const outcomes = new Map<Write<unknown>, Outcome>();
    sets.forEach((set, index) => {
      const answer = rows[index + 1];
      read(set, answer?.status === 'fulfilled' ? (answer.value as readonly QuickRow[]) : [], outcomes);
    });
    return outcomes;
  }

  async #interleaved(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<Outcomes | undefined> {
    let broken: unknown;
    try {
      return await this.#transactions.run(async (tx) => {
        const outcomes = new Map<Write<unknown>, Outcome>();
        try {
          const [head] = await tx.run(lockHead, [org]);
          if (head === undefined) return new Map(writes.map((write) => [write, { ok: false as const, cause: gone() }]));
          // The careful ones first: which of the writes that came together is earlier, nobody can tell.
          for (const write of writes) if (write.kind === 'careful') outcomes.set(write, await contained(tx, write));
          for (const set of inWaves(writes.filter((write) => write.kind === 'quick')).flat()) {
            read(set, await tx.run(set.operation.many, setValues(org, set)), outcomes);
          }
        } catch (cause) {
          broken = cause;
          throw cause;
        }
        return outcomes;
      });
    } catch (cause) {
      // Rolled back for sure when a statement failed with an error of its own: alone, each write meets its own error.
      if (broken !== cause || toStoreError(cause).code === 'unavailable') throw cause;
      return writes.length === 1 ? new Map(writes.map((write) => [write, { ok: false, cause }])) : undefined;
    }
  }
}

function decoded(write: QuickWrite<unknown>, row: QuickRow): Outcome {
  try {
    return { ok: true, value: write.decode(row) };
  } catch (cause) {
    return { ok: false, cause };
  }
}

/** Under the lock a statement answers for each of its writes, unless the organization does not exist. */
function read(set: QuickSet, rows: readonly QuickRow[], outcomes: Map<Write<unknown>, Outcome>): void {
  const byId = new Map(rows.map((row) => [row.id, row]));
  for (const write of set.writes) {
    const row = byId.get(write.item.id);
    outcomes.set(write, row === undefined ? { ok: false, cause: gone() } : decoded(write, row));
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
