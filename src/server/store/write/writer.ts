/**
 * Owns the order of writes: writes that arrive for an organization while a transaction is in flight share the next one.
 *
 * Writers of one organization queue on its row in `heads`, and many of them slow each other down. So a server sends one
 * transaction at a time, and a second one behind it on the same connection when many wait, so that PostgreSQL has work
 * while this process reads answers. There is no timer: a write to an idle organization is sent at once.
 *
 * Two kinds of write:
 * - `single-statement`: one statement decides and writes. Alone it is its own transaction. Its snapshot may be older
 *   than the lock it then waits for, so the statement compares the version it saw with the version it updates. When
 *   they differ, it changes nothing (no row comes back) and is repeated under the lock. Concurrent ones run as sets.
 * - `transaction`: several statements with decisions in between, run under the lock; beside others behind a savepoint.
 *   Its right is checked first.
 *
 * Where the organization has policy tests, a single statement that can change a verdict refuses itself with
 * `needs_tests` and runs again as a transaction, which `write-check` checks. The same with `needs_acceptance` where its
 * actor takes the role of an owner that it has not accepted.
 *
 * One write's failure is its own. A refusal is an answer, not an error, so it breaks nothing. An SQL error, which no
 * write should cause, rolls the shared transaction back, and its writes run again one by one.
 */
import type { OrganizationId } from '../../../policy/ids.ts';
import { setImmediate } from 'node:timers/promises';
import type { PipelinedConnection, PipelinedConnections, Transactions } from '../postgres/connection.ts';
import type { Actor } from '../contract/actor.ts';
import type { Entry } from '../contract/change-log.ts';
import { StoreError } from '../../problems.ts';
import { isPassing, toStoreError } from '../postgres/failure.ts';
import { loggedBy, oneOf, oneValues, type SingleStatementRow, type SingleStatementWrite } from './single-statement.ts';
import type { HistoryGuard, WrittenHead } from '../schema/history-guard.ts';
import { statement } from '../postgres/sql.ts';
import { decoded, loggedIn, needsTransaction, outcomesOf } from './outcomes.ts';
import type { OwnershipContext } from './pending-ownership.ts';
import { openingOf } from './right.ts';
import {
  asTransaction,
  DryRunResult,
  gone,
  runAlone,
  runContained,
  type Outcome,
  type TransactionWrite,
} from './run-transaction.ts';
import { now, type Stamps } from './stamp.ts';
import { recordedWrite } from './idempotency.ts';
import type { OrganizationModels } from '../model/organizations.ts';
import { NeedsTurn, type Turns } from './turns.ts';
import type { WriteCheck } from './write-check.ts';
import { inWaves, setValues } from './waves.ts';

export type Write<T> = SingleStatementWrite<T> | TransactionWrite<T>;

export const transactionWrite = <T>(
  stamps: Pick<Stamps, 'clock'>,
  by: Actor,
  run: TransactionWrite<T>['run'],
): TransactionWrite<T> => ({
  kind: 'transaction',
  by,
  opening: openingOf(by, now(stamps)),
  run,
});

interface Pending {
  readonly write: Write<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (cause: unknown) => void;
}

type Outcomes = ReadonlyMap<Write<unknown>, Outcome>;

/** What is known of transactions that were answered as committed. */
interface Committed {
  /** Absent where nothing was written. */
  readonly head?: WrittenHead | undefined;
  /** What one transaction logged, ascending and whole. Undefined: that is not known here, or there were several; the log knows. */
  readonly logged?: readonly Entry[] | undefined;
}

interface Attempt extends Committed {
  /** In the order of the writes. */
  readonly outcomes: readonly Outcome[];
}

interface BatchResult extends Committed {
  readonly outcomes: Outcomes;
}

const committedWith = (logged: readonly Entry[]): Committed => ({ head: logged.at(-1), logged });

const lockHead = statement<{ revision: number }>(
  'lock_head',
  'SELECT revision FROM heads WHERE org_id = $1 FOR NO KEY UPDATE',
);
/** The head that a transaction has reached, by the organization's row that it holds. */
const readHead = statement<WrittenHead>(
  'read_written_head',
  'SELECT revision, (SELECT id FROM eras ORDER BY serial DESC LIMIT 1) AS era FROM heads WHERE org_id = $1',
);
/** Every write that looked before must look again. */
const moveVersion = statement<never>('move_version', 'UPDATE heads SET version = version + 1 WHERE org_id = $1');

/** Bounds of one transaction: writes, and characters of their values. */
const maxBatch = 512;
const maxBatchSize = 4 << 20;
/** The most writes that may wait for one organization. Beyond it, callers get an error and should retry. */
const maxWaiting = 20_000;
/** How many make a transaction worth sending behind another: fewer are better off together. */
const enoughForSecond = 16;

/**
 * The pending writes of one organization. Its batches use one connection: a later batch waits behind the earlier one
 * and blocks no other organization.
 */
interface Queue {
  readonly waiting: Pending[];
  readonly connection: PipelinedConnection;
  /** How many loops take from it: one, or two when many write. */
  loops: number;
  /** How many transactions are sent and not answered. */
  inFlight: number;
  /** Whether the one in flight thinks in between, on a connection of its own: what is sent behind it would only wait for its lock. */
  thinking: boolean;
}

const newQueue = (connection: PipelinedConnection): Queue => ({
  waiting: [],
  connection,
  loops: 0,
  inFlight: 0,
  thinking: false,
});

function sizeOf(write: Write<unknown>): number {
  let size = 0;
  if (write.kind === 'transaction') return size;
  for (const name in write.item) {
    const value = write.item[name];
    size += typeof value === 'string' ? value.length : 8;
  }
  return size;
}

const isSingleStatement = ({ write }: Pending): boolean => write.kind === 'single-statement';

const refused = (writes: readonly Write<unknown>[], cause: unknown): Outcomes =>
  new Map(writes.map((write) => [write, { ok: false, cause }]));
const unforeseen = (): Outcome => ({ ok: false, cause: new StoreError({ code: 'unexpected' }) });

export class Writer {
  readonly #connections: PipelinedConnections;
  readonly #transactions: Transactions;
  readonly #guard: HistoryGuard;
  readonly #check: WriteCheck;
  readonly #models: OrganizationModels;
  readonly #ownership: OwnershipContext;
  readonly #turns: Turns;
  readonly #committed: (org: OrganizationId, what: Committed) => void;
  readonly #queues = new Map<OrganizationId, Queue>();
  #idle: (() => void) | undefined;

  /** `committed` is called once for each transaction that was answered as committed, in the order of the answers. */
  constructor(parts: {
    connections: PipelinedConnections;
    transactions: Transactions;
    guard: HistoryGuard;
    check: WriteCheck;
    models: OrganizationModels;
    ownership: OwnershipContext;
    turns: Turns;
    committed: (org: OrganizationId, what: Committed) => void;
  }) {
    this.#connections = parts.connections;
    this.#transactions = parts.transactions;
    this.#guard = parts.guard;
    this.#check = parts.check;
    this.#models = parts.models;
    this.#ownership = parts.ownership;
    this.#turns = parts.turns;
    this.#committed = parts.committed;
  }

  write<T>(org: OrganizationId, given: Write<T>): Promise<T> {
    const isStatement = given.kind === 'single-statement' && given.by.isDryRun === true;
    const write = recordedWrite(this.#ownership, org, isStatement ? asTransaction(this.#ownership, org, given) : given);
    return new Promise<T>((resolve, reject) => {
      const queue = this.#queues.get(org) ?? newQueue(this.#connections.pick());
      if (queue.waiting.length >= maxWaiting) {
        reject(new StoreError({ code: 'unavailable' }, { message: 'too many writes wait for one organization' }));
        return;
      }
      this.#queues.set(org, queue);
      const committed = (value: unknown): void => {
        given.by.onCommitted?.();
        resolve(value as T);
      };
      const failed = (cause: unknown): void => {
        if (cause instanceof DryRunResult) resolve(cause.value as T);
        else reject(cause);
      };
      queue.waiting.push({ write, resolve: committed, reject: failed });
      if (queue.loops === 0) void this.#drain(org, queue);
      else if (queue.loops === 1 && queue.waiting.length === enoughForSecond) void this.#drainToo(org, queue);
    });
  }

  /**
   * Resolves when no write that read the database before this call can still commit in the organization. For rights
   * that end outside of the organization's order: earlier holders of the lock have committed by then, and later ones
   * find another version.
   */
  async drain(org: OrganizationId): Promise<void> {
    await this.#transactions.run((tx) => tx.run(moveVersion, [org]));
  }

  /** Resolves when nothing is in flight. */
  async settle(): Promise<void> {
    if (this.#queues.size > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
  }

  async #drain(org: OrganizationId, queue: Queue): Promise<void> {
    queue.loops += 1;
    for (let batch = next(queue); batch.length > 0; batch = next(queue)) {
      if (queue.loops === 1 && queue.waiting.length >= enoughForSecond) void this.#drainToo(org, queue);
      queue.inFlight += 1;
      queue.thinking = !batch.every(isSingleStatement);
      const [only] = batch;
      const attempt =
        batch.length === 1 && only !== undefined
          ? await this.#alone(org, queue.connection, only.write)
          : await this.#attempt(org, queue.connection, batch);
      const { outcomes, ...committed } = await this.#repeated(org, batch, attempt);
      queue.inFlight -= 1;
      if (outcomes.some(({ ok }) => ok)) this.#committed(org, committed);
      batch.forEach(({ resolve, reject }, index) => {
        const outcome = outcomes[index] ?? unforeseen();
        if (outcome.ok) resolve(outcome.value);
        else reject(toStoreError(outcome.cause));
      });
      // Where many write, those just answered have more to write: let them say so, and share the next transaction.
      if (batch.length > 1) await setImmediate();
    }
    queue.loops -= 1;
    if (queue.loops > 0) return;
    this.#queues.delete(org);
    if (this.#queues.size === 0) this.#idle?.();
  }

  /** Runs the writes again that policy tests must be looked at for, or that accept an ownership. */
  async #repeated(org: OrganizationId, batch: readonly Pending[], attempt: Attempt): Promise<Attempt> {
    if (!attempt.outcomes.some(needsTransaction)) return attempt;
    const outcomes = [...attempt.outcomes];
    let { head } = attempt;
    for (const [index, { write }] of batch.entries()) {
      const outcome = outcomes[index];
      if (outcome === undefined || !needsTransaction(outcome) || write.kind !== 'single-statement') continue;
      const again = asTransaction(this.#ownership, org, write);
      outcomes[index] = await this.#guard
        .whenVerified(() => this.#interleaved(org, [again]))
        .then(
          (made) => {
            head = made?.head ?? head;
            return [...(made?.outcomes.values() ?? [])][0] ?? unforeseen();
          },
          (cause: unknown) => ({ ok: false, cause }),
        );
    }
    return { outcomes, head };
  }

  /** The second loop, begun when everybody who speaks just now has spoken. */
  async #drainToo(org: OrganizationId, queue: Queue): Promise<void> {
    queue.loops += 1;
    await setImmediate();
    queue.loops -= 1;
    await this.#drain(org, queue);
  }

  /** Never rejects: every write gets its own outcome, in their order. */
  async #attempt(org: OrganizationId, connection: PipelinedConnection, batch: readonly Pending[]): Promise<Attempt> {
    const writes = batch.map(({ write }) => write);
    try {
      const together = await this.#guard.whenVerified(() => this.#together(org, connection, writes));
      if (together !== undefined) {
        const { outcomes, ...committed } = together;
        return { outcomes: writes.map((write) => outcomes.get(write) ?? unforeseen()), ...committed };
      }
    } catch (cause) {
      // The connection went: whether it committed is unknown, and running it again could do it twice.
      return { outcomes: writes.map(() => ({ ok: false, cause })) };
    }
    const attempts: Attempt[] = [];
    for (const write of writes) attempts.push(await this.#alone(org, connection, write));
    return {
      outcomes: attempts.flatMap(({ outcomes }) => outcomes),
      head: attempts.findLast(({ head }) => head !== undefined)?.head,
    };
  }

  /** Never rejects either. A single statement is sent before this returns. */
  async #alone(org: OrganizationId, connection: PipelinedConnection, write: Write<unknown>): Promise<Attempt> {
    try {
      return await this.#guard.whenVerified(() => this.#onItsOwn(org, connection, write));
    } catch (cause) {
      return { outcomes: [{ ok: false, cause }] };
    }
  }

  async #onItsOwn(org: OrganizationId, connection: PipelinedConnection, write: Write<unknown>): Promise<Attempt> {
    if (write.kind === 'single-statement') {
      const [row] = await connection.run(
        oneOf(write.operation, write.item),
        oneValues(org, write.operation, write.item),
      );
      // No row: the organization changed under the statement, or does not exist. Under the lock it will be clear.
      if (row !== undefined) {
        const entry = loggedBy(row);
        return { outcomes: [decoded(write, row)], ...committedWith(entry === undefined ? [] : [entry]) };
      }
    }
    const made = await this.#interleaved(org, [write]);
    return { outcomes: [made?.outcomes.get(write) ?? unforeseen()], head: made?.head };
  }

  /** Undefined when the transaction was taken back because of an SQL error; throws when its outcome is unknown or time may heal it. */
  async #together(
    org: OrganizationId,
    connection: PipelinedConnection,
    writes: readonly Write<unknown>[],
  ): Promise<BatchResult | undefined> {
    const single = writes.filter((write) => write.kind === 'single-statement');
    if (single.length === writes.length) return this.#pipelined(org, connection, single);
    return this.#interleaved(org, writes);
  }

  /** All single statements: everything is sent in one piece, the commit included. */
  async #pipelined(
    org: OrganizationId,
    connection: PipelinedConnection,
    writes: readonly SingleStatementWrite<unknown>[],
  ): Promise<BatchResult | undefined> {
    const sets = inWaves(writes).flat();
    const statements = sets.map((set) => ({ statement: set.operation.many, values: setValues(org, set) }));
    const { rows, committed } = await connection.batch([{ statement: lockHead, values: [org] }, ...statements]);
    const failed = rows.find((answer) => answer.status === 'rejected');
    if (!committed || failed?.status === 'rejected') {
      const passing = rows.find((answer) => answer.status === 'rejected' && isPassing(answer.reason));
      if (passing?.status === 'rejected') throw passing.reason;
      return undefined;
    }
    const outcomes = new Map<Write<unknown>, Outcome>();
    const all: SingleStatementRow[] = [];
    sets.forEach((set, index) => {
      const answer = rows[index + 1];
      const answers = answer?.status === 'fulfilled' ? (answer.value as readonly SingleStatementRow[]) : [];
      for (const [write, outcome] of outcomesOf(set, answers)) outcomes.set(write, outcome);
      all.push(...answers);
    });
    return { outcomes, ...committedWith(loggedIn(all)) };
  }

  async #interleaved(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<BatchResult | undefined> {
    try {
      return await this.#inTransaction(org, writes, { hasTurn: false });
    } catch (cause) {
      const [first] = writes;
      if (!(cause instanceof NeedsTurn) || first === undefined) throw cause;
      const end = await this.#turns.take(first.by.user_id, org);
      try {
        return await this.#inTransaction(org, writes, { hasTurn: true });
      } finally {
        end();
      }
    }
  }

  async #inTransaction(
    org: OrganizationId,
    writes: readonly Write<unknown>[],
    { hasTurn }: { readonly hasTurn: boolean },
  ): Promise<BatchResult | undefined> {
    let broken: unknown;
    const model = this.#models.inTransaction(org, { hasTurn });
    const check = this.#check.begin(org, model);
    try {
      const made = await this.#transactions.run(async (tx) => {
        const outcomes = new Map<Write<unknown>, Outcome>();
        try {
          const [head] = await tx.run(lockHead, [org]);
          if (head === undefined) return { outcomes: refused(writes, gone()) };
          // The transaction writes go first. Writes that arrived together have no defined order.
          const run = writes.length === 1 ? runAlone : runContained;
          for (const write of writes)
            if (write.kind === 'transaction')
              outcomes.set(write, await run({ tx, org, check, model, ownership: this.#ownership }, write));
          for (const set of inWaves(writes.filter((write) => write.kind === 'single-statement')).flat()) {
            const rows = await tx.run(set.operation.many, setValues(org, set));
            for (const [write, outcome] of outcomesOf(set, rows)) outcomes.set(write, outcome);
          }
          const [reached] = await tx.run(readHead, [org]);
          return { outcomes, head: reached };
        } catch (cause) {
          broken = cause;
          throw cause;
        }
      });
      check.committed();
      model.committed();
      return made;
    } catch (cause) {
      if (broken instanceof NeedsTurn) throw broken;
      // Rolled back for sure when a statement failed with an error of its own: alone, each write meets its own error.
      if (broken !== cause || isPassing(cause)) throw cause;
      return writes.length === 1 ? { outcomes: refused(writes, cause) } : undefined;
    }
  }
}

/**
 * What goes into the next transaction. When none is in flight and many wait, half of them: the other half follows at once, so that
 * PostgreSQL always has one to do while this process reads the answers of another. Behind one in flight only many together go.
 */
function next({ waiting, inFlight, thinking }: Queue): readonly Pending[] {
  const divisible = waiting.length >= enoughForSecond && waiting.every(isSingleStatement);
  if (inFlight > 0 && (thinking || !divisible)) return [];
  const half = inFlight === 0 && divisible && waiting.length >= 2 * enoughForSecond;
  const share = half ? Math.ceil(waiting.length / 2) : waiting.length;
  let count = 0;
  for (let size = 0; count < Math.min(share, maxBatch) && size < maxBatchSize; count += 1) {
    const pending = waiting[count];
    if (pending !== undefined) size += sizeOf(pending.write);
  }
  return waiting.splice(0, count);
}
