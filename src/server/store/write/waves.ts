/** Owns the grouping of single-statement writes into sets: the writes that one statement may do together. */
import type { SingleStatementOperation, SingleStatementWrite } from './single-statement.ts';
import type { Value } from '../postgres/sql.ts';

/** Writes of one operation that do not depend on each other. */
export interface SingleStatementSet {
  readonly operation: SingleStatementOperation;
  readonly writes: readonly SingleStatementWrite<unknown>[];
}

/**
 * Waves of sets. Two writes that touch the same record, or want the same public key, are in different waves in their order
 * of arrival, because a statement does not see what it writes itself.
 */
export function inWaves(writes: readonly SingleStatementWrite<unknown>[]): readonly (readonly SingleStatementSet[])[] {
  const waves: Map<SingleStatementOperation, SingleStatementWrite<unknown>[]>[] = [];
  const last = new Map<string, number>();
  for (const write of writes) {
    const wave = Math.max(-1, ...write.conflictKeys.map((key) => last.get(key) ?? -1)) + 1;
    for (const key of write.conflictKeys) last.set(key, wave);
    const sets = (waves[wave] ??= new Map());
    const set = sets.get(write.operation);
    if (set === undefined) sets.set(write.operation, [write]);
    else set.push(write);
  }
  return waves.map((sets) => [...sets].map(([operation, members]) => ({ operation, writes: members })));
}

/** What the `many` form of an operation takes. */
export const setValues = (org: string, set: SingleStatementSet): Value[] => [
  org,
  JSON.stringify(set.writes.map(({ item }) => item)),
];
