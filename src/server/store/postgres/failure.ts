/** Owns the translation of errors from PostgreSQL and its driver: every failure becomes a `StoreError` here. */
import { StoreError } from '../../problems.ts';
import { groupQuotas } from '../data/quotas.ts';

const codeOf = (cause: unknown): string => {
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined;
  return typeof code === 'string' ? code : '';
};

/** The SQLSTATE of an error that the server itself reported; undefined when the connection failed instead. */
export function sqlState(cause: unknown): string | undefined {
  const code = codeOf(cause);
  return /^[0-9A-Z]{5}$/.test(code) && cause instanceof Error && 'severity' in cause ? code : undefined;
}

/**
 * States that pass with time: connection trouble (08), resources used up or disk full (53), an operator's or a crash's
 * intervention (57), a standby or a full disk's read-only transaction (25006), locks held too long (55P03), I/O (58),
 * transactions that PostgreSQL itself asks to repeat (40), and writes before the history is verified (RF001).
 */
const passing = /^(08(?!P)|53|57|58|40|25006|25P03|55P03|RF001)/;

/** Texts beyond what can be kept: untranslatable characters (22021, 22P05), index entries (54000) or values past every limit. */
const unkeepable = /^(22021|22P05|22001|54)/;

/** The server, or a pooler, ends the connection with this error. */
const endsConnection = (cause: unknown): boolean =>
  cause instanceof Error && 'severity' in cause && (cause.severity === 'FATAL' || cause.severity === 'PANIC');

/** A password or a database that is wrong: time does not heal it. */
const refusesLogin = /^(28|3D)/;

/** What a write of a group would be too much of, as the trigger that sums up the groups of an organization says it. */
function limitReached(cause: unknown): StoreError | undefined {
  const detail = cause instanceof Error && 'detail' in cause ? String(cause.detail) : '';
  const [, name, limit] = /^(\w+) (\d+)$/.exec(detail) ?? [];
  const what = groupQuotas.find((quota) => quota === name);
  return what && new StoreError({ code: 'limit_reached', what, limit: Number(limit) }, { cause });
}

export function toStoreError(cause: unknown): StoreError {
  if (cause instanceof StoreError) return cause;
  const state = sqlState(cause);
  const reached = state === 'RF002' ? limitReached(cause) : undefined;
  if (reached !== undefined) return reached;
  if (state === undefined) {
    // A TypeError or the like is our own fault; everything else without a state came from the connection.
    const ours = cause instanceof TypeError || cause instanceof RangeError || cause instanceof SyntaxError;
    return new StoreError({ code: ours ? 'unexpected' : 'unavailable' }, { cause });
  }
  if (state === '53100') return new StoreError({ code: 'storage_full' }, { cause });
  if (passing.test(state) || (endsConnection(cause) && !refusesLogin.test(state)))
    return new StoreError({ code: 'unavailable' }, { cause });
  if (unkeepable.test(state)) return new StoreError({ code: 'invalid_text' }, { cause });
  return new StoreError({ code: 'unexpected' }, { cause });
}

/** Whether a write was refused because the history of the database is to be verified first. Nothing of it happened. */
export const isUnverified = (cause: unknown): boolean =>
  sqlState(cause instanceof StoreError ? cause.cause : cause) === 'RF001';

/** Whether it is no fault of the statement, so that it makes no difference whether it comes alone. */
export const isPassing = (cause: unknown): boolean => {
  const { code } = toStoreError(cause);
  return code === 'unavailable' || code === 'storage_full' || code === 'outcome_unknown';
};

/** Whether the connection ended under a statement, rather than the statement being refused or taking too long. */
export function wasLost(cause: unknown): boolean {
  if (!(cause instanceof StoreError) || (cause.code !== 'unavailable' && cause.code !== 'storage_full')) return false;
  return sqlState(cause.cause) === undefined || endsConnection(cause.cause);
}

/** For a failure after the commit was sent: when the connection was lost, the outcome is unknown. */
export function afterCommitSent(cause: unknown): StoreError {
  const error = toStoreError(cause);
  return wasLost(error) ? new StoreError({ code: 'outcome_unknown' }, { cause: error.cause }) : error;
}

/** For a write that no caller asked for: whether it happened says nothing about what the caller did. */
export function asUnavailable(cause: unknown): StoreError {
  const error = toStoreError(cause);
  return error.code === 'outcome_unknown' ? new StoreError({ code: 'unavailable' }, { cause: error.cause }) : error;
}
