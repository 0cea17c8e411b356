/**
 * Owns how one transaction write runs under the organization's lock: first the check of its right, then the write, with
 * policy tests before and after.
 */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Actor } from '../contract/actor.ts';
import { StoreError } from '../../problems.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { isPassing } from '../postgres/failure.ts';
import { statement } from '../postgres/sql.ts';
import { acceptByWriting, type OwnershipContext } from './pending-ownership.ts';
import { checkSkip, openingOfStatement, refusedRight, type OpenedHead, type Opening } from './right.ts';
import { runOne, type SingleStatementWrite } from './single-statement.ts';
import { isChecked, type WriteCheckSession } from './write-check.ts';

export interface TransactionWrite<T> {
  readonly kind: 'transaction';
  readonly by: Actor;
  readonly opening: Opening;
  /** Receives the head at the start of the write, and the organization as the transaction sees it. */
  readonly run: (tx: Runner, head: OpenedHead, model: ModelInTransaction) => Promise<T>;
}

export type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly cause: unknown };

export const gone = (): StoreError => new StoreError({ code: 'not_found', what: 'organization' });

/** Takes a dry run back once everything has judged it, with what it would have answered. */
export class DryRunResult extends StoreError {
  readonly value: unknown;

  constructor(value: unknown) {
    super({ code: 'unexpected' }, { message: 'a dry run was taken back' });
    this.value = value;
  }
}

/** A single statement as a transaction write. It judges its right itself. */
export const asTransaction = <T>(
  ownership: OwnershipContext,
  org: OrganizationId,
  { by, operation, item, decode }: SingleStatementWrite<T>,
): TransactionWrite<T> => ({
  kind: 'transaction',
  by,
  opening: openingOfStatement,
  async run(tx) {
    const row = await runOne(ownership, { tx, org }, by, operation, item);
    if (row === undefined) throw gone();
    return decode(row);
  },
});

const savepoint = statement<never>('savepoint', 'SAVEPOINT write');
const release = statement<never>('release', 'RELEASE SAVEPOINT write');
const undo = statement<never>('undo', 'ROLLBACK TO SAVEPOINT write');

export interface LockedTransaction {
  readonly tx: Runner;
  readonly org: OrganizationId;
  readonly check: WriteCheckSession;
  readonly model: ModelInTransaction;
  readonly ownership: OwnershipContext;
}

/** Runs a transaction write, if its right holds now. */
async function opened(locked: LockedTransaction, write: TransactionWrite<unknown>): Promise<unknown> {
  const value = await judged(locked, write);
  if (write.by.isDryRun === true) throw new DryRunResult(value);
  return value;
}

async function judged(
  { tx, org, check, model, ownership }: LockedTransaction,
  write: TransactionWrite<unknown>,
): Promise<unknown> {
  const { opening, run, by } = write;
  const [head] = await tx.run(opening.statement, [org, ...opening.values]);
  if (head === undefined) throw gone();
  if (head.refusal !== null) throw refusedRight(head.refusal);
  if (by.tests === 'skip') await checkSkip(tx, org, by);
  // Before the write, so that it is judged as by an owner who counts. A refusal takes both back.
  if (head.accepts || by.tests === 'skip') await acceptByWriting(ownership, tx, org, by);
  if (!head.has_tests || !isChecked(by)) return run(tx, head, model);
  await check.before(tx);
  const value = await run(tx, head, model);
  await check.after(tx);
  return value;
}

/** Alone in its transaction, which is taken back where the write is refused or fails. */
export const runAlone = async (locked: LockedTransaction, write: TransactionWrite<unknown>): Promise<Outcome> => ({
  ok: true,
  value: await opened(locked, write),
});

/** Behind a savepoint: refused or failed, it leaves no trace in the transaction it shares. */
export async function runContained(locked: LockedTransaction, write: TransactionWrite<unknown>): Promise<Outcome> {
  const { tx, model } = locked;
  const { mark } = model;
  await tx.run(savepoint, []);
  try {
    const value = await opened(locked, write);
    await tx.run(release, []);
    return { ok: true, value };
  } catch (cause) {
    if (isPassing(cause)) throw cause;
    await tx.run(undo, []);
    model.reset(mark);
    return { ok: false, cause };
  }
}
