/**
 * Owns the order of writes: writes that arrive for an organization while a transaction is in flight share the next one.
 *
 * Writers of one organization queue on its row in `heads`, and many of them slow each other down. So a server sends one
 * transaction at a time. There is no timer: a write to an idle organization is sent at once. Writes of records are decided in this process, one after the
 * other, from what it knows of the organization, and appended by one statement if that is still so (`without-lock.ts`). Other writes, and those
 * that have lost that race, lock the head, then read what they look at, in one message; what they leave is appended and committed in another.
 *
 * One write's failure is its own. A refusal is an answer, not an error, so it breaks nothing. An SQL error, which no
 * write should cause, rolls the shared transaction back, and its writes run again one by one.
 */
import { rightRoles } from '../../../organization/decide/caller.ts';
import type { OrganizationId } from '../../../policy/ids.ts';
import { setImmediate } from 'node:timers/promises';
import type { PipelinedConnections, Runner, Transactions } from '../postgres/connection.ts';
import type { Actor } from '../data/actor.ts';
import type { Entry } from '../data/change-log.ts';
import { StoreError } from '../../problems.ts';
import { isPassing, toStoreError } from '../postgres/failure.ts';
import type { HistoryGuard, WrittenHead } from '../schema/history-guard.ts';
import { statement } from '../postgres/sql.ts';
import { lockHead } from './append.ts';
import { callerKey } from './caller.ts';
import { Known, KnownOrganizations } from './known.ts';
import { Records } from './records/records.ts';
import {
  askedBy,
  asTransaction,
  decideAll,
  DryRunResult,
  gone,
  look,
  runAlone,
  runContained,
  type DecidingContext,
  type Outcome,
  type RecordWrite,
  type TransactionWrite,
  type Write,
} from './run-transaction.ts';
import { recordedWrite } from './idempotency.ts';
import type { OrganizationModels } from '../model/organizations.ts';
import { NeedsTurn, type Turns } from './turns.ts';
import { writeWithoutLock } from './without-lock.ts';
import type { WriteCheck } from './write-check.ts';

export const transactionWrite = <T>(
  by: Actor,
  run: TransactionWrite<T>['run'],
  options: Pick<TransactionWrite<T>, 'onlyReads'> = {},
): TransactionWrite<T> => ({ kind: 'transaction', by, run, ...options });

interface Pending {
  readonly write: Write<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (cause: unknown) => void;
}

/** What is known of transactions that were answered as committed. */
interface Committed {
  /** Absent where nothing was written. */
  readonly head?: WrittenHead | undefined;
  /** What one transaction logged, ascending and whole. Undefined: there were several, or it is long; the log knows. */
  readonly logged?: readonly Entry[] | undefined;
}

interface Attempt extends Committed {
  /** In the order of the writes. */
  readonly outcomes: readonly Outcome[];
}

interface InTransaction extends Pick<Attempt, 'outcomes'> {
  readonly records: Records;
  /** What may be known of the organization once it is committed. */
  readonly learned: Known | undefined;
}

/** What was decided or known before is to be looked at again. Values: organization. */
const moveVersion = statement<never>('move_version', 'UPDATE heads SET version = version + 1 WHERE org_id = $1');

/** Bounds of one transaction: writes, and characters that they write. */
const maxBatch = 512;
const maxBatchSize = 4 << 20;
/** The most writes that may wait for one organization. Beyond it, callers get an error and should retry. */
const maxWaiting = 20_000;

const refused = (writes: readonly unknown[], cause: unknown): readonly Outcome[] =>
  writes.map(() => ({ ok: false, cause }));
const unforeseen = (): Outcome => ({ ok: false, cause: new StoreError({ code: 'unexpected' }) });

/** A right by what the version of an organization does not move with: an enrollment key has uses and a time, and administrators are the server's. */
const isOfElsewhere = ({ by: { right } }: Write<unknown>): boolean =>
  right.credential.kind === 'enrollment_key' || (right.roles & rightRoles.administrator) !== 0;

const isRecordWrite = (write: Write<unknown>): write is RecordWrite<unknown> => write.kind === 'record';

export class Writer {
  readonly #connections: PipelinedConnections;
  readonly #transactions: Transactions;
  readonly #guard: HistoryGuard;
  readonly #check: WriteCheck;
  readonly #models: OrganizationModels;
  readonly #context: DecidingContext;
  readonly #turns: Turns;
  readonly #organizations = new KnownOrganizations();
  readonly #committed: (org: OrganizationId, what: Committed) => void;
  /** What waits, of each organization that has a transaction in flight. */
  readonly #queues = new Map<OrganizationId, Pending[]>();
  #idle: (() => void) | undefined;

  /** `committed` is called once for each transaction that was answered as committed, in the order of the answers. */
  constructor(parts: {
    connections: PipelinedConnections;
    transactions: Transactions;
    guard: HistoryGuard;
    check: WriteCheck;
    models: OrganizationModels;
    context: DecidingContext;
    turns: Turns;
    committed: (org: OrganizationId, what: Committed) => void;
  }) {
    this.#connections = parts.connections;
    this.#transactions = parts.transactions;
    this.#guard = parts.guard;
    this.#check = parts.check;
    this.#models = parts.models;
    this.#context = parts.context;
    this.#turns = parts.turns;
    this.#committed = parts.committed;
  }

  write<T>(org: OrganizationId, given: Write<T>): Promise<T> {
    const write = given.by.idempotency === undefined ? given : this.#recorded(given);
    return new Promise<T>((resolve, reject) => {
      const waiting = this.#queues.get(org);
      if (waiting !== undefined && waiting.length >= maxWaiting) {
        reject(new StoreError({ code: 'unavailable' }, { message: 'too many writes wait for one organization' }));
        return;
      }
      const committed = (value: unknown): void => {
        given.by.onCommitted?.();
        resolve(value as T);
      };
      const failed = (cause: unknown): void => {
        if (cause instanceof DryRunResult) resolve(cause.value as T);
        else reject(cause);
      };
      const pending: Pending = { write, resolve: committed, reject: failed };
      if (waiting !== undefined) waiting.push(pending);
      else {
        const queue = [pending];
        this.#queues.set(org, queue);
        void this.#drain(org, queue);
      }
    });
  }

  #recorded<T>(given: Write<T>): TransactionWrite<T> {
    return recordedWrite(this.#context, given.kind === 'record' ? asTransaction(this.#context, given) : given);
  }

  /**
   * Resolves when no write that read the database before this call can still commit in the organization. For rights
   * that end outside of the organization's order: earlier holders of the lock have committed by then, and later ones
   * look after it.
   */
  async drain(org: OrganizationId): Promise<void> {
    await this.#transactions.run((tx) => tx.run(moveVersion, [org]));
  }

  /** Resolves when nothing is in flight. */
  async settle(): Promise<void> {
    if (this.#queues.size > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
  }

  async #drain(org: OrganizationId, queue: Pending[]): Promise<void> {
    for (let batch = next(queue); batch.length > 0; batch = next(queue)) {
      const { outcomes, ...committed } = await this.#attempt(
        org,
        batch.map(({ write }) => write),
      );
      if (outcomes.some(({ ok }) => ok)) this.#committed(org, committed);
      batch.forEach(({ resolve, reject }, index) => {
        const outcome = outcomes[index] ?? unforeseen();
        if (outcome.ok) resolve(outcome.value);
        else reject(toStoreError(outcome.cause));
      });
      // Where many write, those just answered have more to write: let them say so, and share the next transaction.
      if (batch.length > 1) await setImmediate();
    }
    this.#queues.delete(org);
    if (this.#queues.size === 0) this.#idle?.();
  }

  /** Never rejects: every write gets its own outcome, in their order. */
  async #attempt(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<Attempt> {
    try {
      const together = await this.#guard.whenVerified(
        async () => (await this.#withoutLock(org, writes)) ?? this.#together(org, writes),
      );
      if (together !== undefined) return together;
    } catch (cause) {
      // The connection went: whether it committed is unknown, and running it again could do it twice.
      return { outcomes: refused(writes, cause) };
    }
    const attempts: Attempt[] = [];
    for (const write of writes) attempts.push(await this.#attempt(org, [write]));
    return {
      outcomes: attempts.flatMap(({ outcomes }) => outcomes),
      head: attempts.findLast(({ head }) => head !== undefined)?.head,
    };
  }

  /** Undefined when the writes need the lock. */
  async #withoutLock(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<Attempt | undefined> {
    if (writes.some((write) => (write.kind === 'transaction' && write.onlyReads !== true) || isOfElsewhere(write)))
      return undefined;
    const [organizations, context] = [this.#organizations, this.#context];
    if (organizations.isContested(org)) return undefined;
    const model = this.#models.inTransaction(org);
    const check = this.#check.begin(org, model);
    const made = await writeWithoutLock(
      { connection: this.#connections.pick(), org, organizations, context, model, check },
      writes,
    );
    return made && { outcomes: made.outcomes, ...committedBy(made.records) };
  }

  /** Undefined when the transaction was taken back because of an SQL error; throws when its outcome is unknown or time may heal it. */
  async #together(org: OrganizationId, writes: readonly Write<unknown>[]): Promise<Attempt | undefined> {
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
  ): Promise<Attempt | undefined> {
    let broken: unknown;
    const model = this.#models.inTransaction(org, { hasTurn, needsTurn: () => new NeedsTurn() });
    const check = this.#check.begin(org, model);
    try {
      let appended = Promise.resolve();
      const run = async (tx: Runner): Promise<InTransaction> => {
        try {
          const decided = await this.#run({ tx, org, model, check }, writes);
          const { statements, done } = decided.records.send();
          appended = done;
          // The commit goes with it. Of several statements, the first must have moved the head.
          if (statements > 1) await done;
          else done.catch(() => {});
          return decided;
        } catch (cause) {
          broken = cause;
          throw cause;
        }
      };
      const { outcomes, records, learned } = await this.#transactions.run(run).catch(async (cause: unknown) => {
        // What the append says of it is the cause, where the outcome of the commit is known.
        await appended.catch((first: unknown) => {
          if (toStoreError(cause).code === 'outcome_unknown') return;
          broken = first;
          throw first;
        });
        throw cause;
      });
      await appended;
      check.committed();
      model.committed();
      if (learned === undefined) this.#organizations.forget(org);
      else {
        records.teach(learned);
        this.#organizations.set(org, learned);
      }
      return { outcomes, ...committedBy(records) };
    } catch (cause) {
      this.#organizations.forget(org);
      if (broken instanceof NeedsTurn) throw broken;
      // Rolled back for sure when a statement failed with an error of its own: alone, each write meets its own error.
      if (broken !== cause || isPassing(cause)) throw cause;
      return writes.length === 1 ? { outcomes: refused(writes, cause) } : undefined;
    }
  }

  /** What it leaves is not flushed yet. */
  async #run(
    place: Pick<Parameters<typeof runAlone>[0], 'tx' | 'org' | 'model' | 'check'>,
    writes: readonly Write<unknown>[],
  ): Promise<InTransaction> {
    const { tx, org, model } = place;
    const outcomes = new Map<Write<unknown>, Outcome>();
    const records = new Records({ tx, org, model });
    const locked = { ...place, records, context: this.#context };
    const decisions = writes.filter(isRecordWrite);
    const others = writes.filter((write) => write.kind === 'transaction');
    const locking = tx.run(lockHead, [org]).then(([head]) => {
      if (head === undefined) throw gone();
      records.begin(head);
      model.startsAt(head);
      this.#organizations.found(org, head);
      return head;
    });
    // The transaction writes go first. Writes that arrived together have no defined order.
    if (others.length > 0) {
      await locking;
      const run = writes.length === 1 ? runAlone : runContained;
      for (const write of others) outcomes.set(write, await run(locked, write));
      records.forget();
    }
    let learned: Known | undefined;
    if (decisions.length > 0) {
      const [head, looked] = await Promise.all([locking, look(locked, decisions)]);
      const decided = await decideAll(locked, decisions, looked);
      decisions.forEach((write, index) => outcomes.set(write, decided[index] ?? unforeseen()));
      if (others.length === 0) {
        learned = this.#organizations.get(org) ?? new Known(head);
        for (const [index, write] of decisions.entries()) {
          const caller = looked.callers[index];
          if (caller !== undefined) learned.callers.set(callerKey(askedBy(write)), { ...caller, has_ended: false });
        }
      }
    }
    // They may have changed what the log does not have: who is a member, and whether there are tests.
    const isLogged = records.revision !== (await locking).revision;
    if (!isLogged && others.some((write) => outcomes.get(write)?.ok === true)) records.also(moveVersion, [org]);
    return { outcomes: writes.map((write) => outcomes.get(write) ?? unforeseen()), records, learned };
  }
}

const committedBy = ({ reached, entries }: Records): Committed => ({
  head: reached,
  logged: isBrief(entries) ? entries : undefined,
});

/** What is longer, readers take from the log, piece by piece. */
const isBrief = (entries: readonly Entry[]): boolean =>
  entries.length <= maxBatch && entries.reduce((sum, { json }) => sum + json.length, 0) <= maxBatchSize;

const sizeOf = ({ write }: Pending): number => (write.kind === 'record' ? write.size : 0);

/** What goes into the next transaction. */
function next(waiting: Pending[]): readonly Pending[] {
  let count = 0;
  for (let size = 0; count < Math.min(waiting.length, maxBatch) && size < maxBatchSize; count += 1) {
    const pending = waiting[count];
    if (pending !== undefined) size += sizeOf(pending);
  }
  return waiting.splice(0, count);
}
