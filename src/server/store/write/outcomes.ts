/** Owns what the rows of single-statement writes say: the outcome of each write, and what the log has of all. */
import type { Entry } from '../contract/change-log.ts';
import { gone, type Outcome } from './run-transaction.ts';
import { loggedBy, type SingleStatementRow, type SingleStatementWrite } from './single-statement.ts';
import type { SingleStatementSet } from './waves.ts';

/** What the answers of a whole transaction say that the log has of it. */
export const loggedIn = (rows: readonly SingleStatementRow[]): readonly Entry[] =>
  rows.flatMap((row) => loggedBy(row) ?? []).toSorted((a, b) => a.revision - b.revision);

const unready: Outcome = { ok: false, cause: 'needs_transaction' };
/** Nothing refuses the write, and it is to be repeated as a transaction. */
export const needsTransaction = (outcome: Outcome): boolean => outcome === unready;

export function decoded(write: SingleStatementWrite<unknown>, row: SingleStatementRow): Outcome {
  if (row.refusal === 'needs_tests' || row.refusal === 'needs_acceptance') return unready;
  try {
    return { ok: true, value: write.decode(row) };
  } catch (cause) {
    return { ok: false, cause };
  }
}

/** Under the lock a statement answers for each of its writes, unless the organization does not exist. */
export function outcomesOf(
  { writes }: SingleStatementSet,
  rows: readonly SingleStatementRow[],
): readonly (readonly [SingleStatementWrite<unknown>, Outcome])[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return writes.map((write) => {
    const row = byId.get(write.item.id);
    return [write, row === undefined ? { ok: false, cause: gone() } : decoded(write, row)];
  });
}
