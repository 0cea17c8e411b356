/**
 * Owns how a write takes a revision and logs a change. Every statement that logs uses these texts, alone or under the
 * lock of a longer transaction: there is no other way to move an organization's head.
 */
import type { WatchKind } from '../../../api/kinds.ts';

/** Which count of the organization's records the rows add to or take from. */
export interface Counter {
  readonly of: 'devices' | 'groups';
  readonly by: '+' | '-';
}

/**
 * A write takes a revision only in a verified database. After a restart of PostgreSQL, or after tables were replaced, a
 * server first compares the history with what it knows. The newest era says which run of which database was compared
 * (`schema/eras.ts`).
 */
const isVerified = `CASE WHEN (
    SELECT e.started_at = pg_postmaster_start_time() AND e.heads_table = h.tableoid FROM eras e ORDER BY e.serial DESC LIMIT 1
  ) THEN true ELSE refuse_unverified() END`;

/** Moves the head by so many, unless it has moved since it was read under this version; gives the revision before the first. */
const moveHead = (
  count: string,
  version: string,
  { from = '', counter }: { from?: string; counter?: Counter },
): string => `
  UPDATE heads h SET revision = h.revision + ${count}, version = h.version + 1
    ${counter === undefined ? '' : `, ${counter.of} = h.${counter.of} ${counter.by} ${count}`} ${from}
  WHERE h.org_id = $1 AND h.version = ${version} AND ${isVerified} RETURNING h.revision - ${count} AS base`;

/**
 * CTEs that end in `numbered`: each row of `rows` with a `revision` of its own, ascending in `order`. The rows carry the `version` of the head
 * that they were read under; when the head has moved since, nothing is taken and `numbered` is empty.
 */
export const takeRevisions = (rows: string, order = '', counter?: Counter): string => `
  head AS (${moveHead('taken.count', 'taken.version', { from: `FROM (SELECT count(*) AS count, min(version) AS version FROM ${rows}) taken`, ...(counter && { counter }) })}),
  numbered AS MATERIALIZED (SELECT ${rows}.*, head.base + row_number() OVER (${order}) AS revision FROM ${rows}, head)`;

/** The same for at most one row, which costs a single write less. */
export const takeRevision = (row: string, counter?: Counter): string => `
  head AS (${moveHead('1', `(SELECT version FROM ${row})`, counter === undefined ? {} : { counter })}),
  numbered AS MATERIALIZED (SELECT ${row}.*, head.base + 1 AS revision FROM ${row}, head)`;

/** The version of the head that rows are read under, for `takeRevisions`. */
export const headVersion = '(SELECT h.version FROM heads h WHERE h.org_id = $1) AS version';

interface ChangeRows {
  readonly kind: WatchKind | 'organization';
  readonly type: 'change' | 'delete';
  /** Rows with `org_id`, `id`, `revision` and `body`. */
  readonly from: string;
  readonly onlyFor?: string;
  readonly leftAt?: string;
  /** Of a device: what its view `identity` shows, or NULL where that is as before. */
  readonly identity?: string;
  /** Of a deletion: the revision at which the record was created. */
  readonly born?: string;
}

/** The newest era: the one that writes now, because writes of any other are refused. */
const era = '(SELECT e.id FROM eras e ORDER BY e.serial DESC LIMIT 1)';

/** One row of the log for each row of `from`. */
export const logChanges = ({
  kind,
  type,
  from,
  onlyFor = 'NULL::uuid',
  leftAt = '0',
  identity = 'NULL::text',
  born,
}: ChangeRows): string => `
  INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at, identity, era ${born === undefined ? '' : ', born'})
  SELECT ${from}.org_id, ${from}.revision, '${kind}', '${type}', ${from}.id, ${from}.body, ${onlyFor}, ${leftAt}, ${identity}, ${era}
    ${born === undefined ? '' : `, ${born}`} FROM ${from}`;
