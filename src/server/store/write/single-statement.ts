/**
 * Owns the shape of single-statement writes: one SQL text serves a single write and a whole set of writes.
 *
 * The text is written once over rows `n` and prepared twice: with `n` as one row of values, which is the cheapest form
 * for a single write, and with `n` as the rows of a JSON array, which costs a fraction per write for concurrent ones.
 * Both forms read what they need as `seen`, refuse or accept each row, take as many revisions as they accepted, and
 * write.
 */
import { parseDeviceId } from '../../../policy/ids.ts';
import { singleStatementColumns, singleStatementEntries, type SingleStatementChanges } from './audit-entry.ts';
import type { Actor } from '../contract/actor.ts';
import type { Entry } from '../contract/change-log.ts';
import { StoreError } from '../../problems.ts';
import type { Quotas } from '../contract/quotas.ts';
import type { DeviceRecord, GroupRecord, Stored } from '../contract/records.ts';
import { entryColumns, entryOf, type EntryRow } from './log-entry.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement, withRevision, type Statement, type Value } from '../postgres/sql.ts';
import { acceptByWriting, type Acting, type OwnershipContext } from './pending-ownership.ts';
import { takeRevision, takeRevisions, type Counter } from './revisions.ts';
import { actorsMembership, rightRefusals, takesPendingRole, type CredentialTable, type ForOwners } from './right.ts';

/** What the log has of a write, or null in each where the write was refused. */
type LoggedRow = { readonly [Column in Exclude<keyof EntryRow, 'id' | 'hidden_from'>]: EntryRow[Column] | null };

export interface SingleStatementRow extends LoggedRow {
  readonly id: string;
  readonly refusal:
    | 'address_by_owner'
    | 'credential_ended'
    | 'forbidden'
    | 'labels_by_owner'
    | 'limit_reached'
    | 'newer_record'
    /**
     * The organization has policy tests, and this write was not checked against them. The writer repeats it under the
     * lock, with the tests.
     */
    | 'needs_tests'
    /** The actor takes the role of an owner that it has not accepted: the write is repeated in a transaction, after the acceptance. */
    | 'needs_acceptance'
    | 'not_a_member'
    | 'not_found'
    | 'precondition_failed'
    | 'public_key_taken'
    | 'too_many_device_ranges'
    | 'too_many_ranges'
    | 'trial_pending'
    | 'unchanged'
    | 'would_open'
    | null;
  /** The current revision, for refusals that report it. */
  readonly standing: number | null;
  /** The result of `tells`, for operations that have it. */
  readonly told: boolean | null;
}

export type Item = Readonly<Record<string, Exclude<Value, Buffer>>>;

/** PostgreSQL holds no NUL, and UTF-8 no half of a surrogate pair: one such text must not fail the set that it is in. */
function clean(given: string): string {
  // eslint-disable-next-line no-control-regex -- it is looked for
  if (!/[\0\uD800-\uDFFF]/.test(given)) return given;
  if (given.includes('\0')) throw new StoreError({ code: 'invalid_text' });
  return /\p{Surrogate}/u.test(given) ? Buffer.from(given).toString() : given;
}

/** The values of one write, from several parts. What is null is left out: to the statement it is the same, and cheaper. */
export function asItem(id: string, ...parts: readonly Item[]): Item & { readonly id: string } {
  const item: Record<string, Item[string]> & { id: string } = { id };
  for (const part of parts) {
    for (const name in part) {
      const value = part[name];
      if (typeof value === 'string') item[name] = clean(value);
      else if (value !== null && value !== undefined) item[name] = value;
    }
  }
  return item;
}

/** `one` takes the organization and the item's values in the order of `columns`; `many` takes the organization and a JSON array of items. */
export interface SingleStatementOperation {
  readonly columns: readonly string[];
  readonly one: Statement<SingleStatementRow>;
  /** As `one`, where the credential is a browser's session. */
  readonly oneBySession: Statement<SingleStatementRow>;
  readonly many: Statement<SingleStatementRow>;
}

/** The form for a single write. */
export const oneOf = (
  { one, oneBySession }: SingleStatementOperation,
  { session }: Item,
): Statement<SingleStatementRow> => (session === undefined || session === null ? one : oneBySession);

/** What the `one` form of an operation takes. */
export function oneValues(org: string, { columns }: SingleStatementOperation, item: Item): Value[] {
  const values: Value[] = [org];
  for (const column of columns) values.push(item[column] ?? null);
  return values;
}

/**
 * Runs an operation for one item of this actor, in a transaction of several statements, whose writer looks at policy tests. Where the actor takes the role of an
 * owner that it has not accepted, it accepts. No row: the organization does not exist, or changed between the reading and the lock.
 */
export async function runOne(
  context: OwnershipContext,
  { tx, org }: { readonly tx: Runner; readonly org: string },
  by: Acting,
  operation: SingleStatementOperation,
  item: Item,
): Promise<SingleStatementRow | undefined> {
  const run = (asked: Item) => tx.run(oneOf(operation, asked), oneValues(org, operation, asked));
  const [row] = await run({ ...item, tested: true });
  if (row?.refusal !== 'needs_acceptance') return row;
  await acceptByWriting(context, tx, org, by);
  return (await run({ ...item, tested: true, accepted: true }))[0];
}

/** One write: what it asks for, and keys of the records it reads and changes, so that no set holds two that depend on each other. */
export interface SingleStatementWrite<T> {
  readonly kind: 'single-statement';
  readonly operation: SingleStatementOperation;
  readonly item: Item & { readonly id: string };
  readonly by: Actor;
  readonly conflictKeys: readonly string[];
  readonly decode: (row: SingleStatementRow) => T;
}

interface Parts {
  /** Name and PostgreSQL type of each value; `id` is the record's, `at` the moment, `actor` who asks. */
  readonly columns: Readonly<Record<string, string>>;
  /** What a row becomes: columns over `n` (the values) and `h` (the head); `from` joins what else is looked at. */
  readonly select: string;
  readonly from?: string;
  /** Whose the record is, as an id of a user or NULL: every write is judged by its right first. `missing`: where there is no such record. */
  readonly owned: { readonly whose: string; readonly missing?: string };
  /** What `refusal` refuses to everybody but an owner. */
  readonly forOwners?: readonly ForOwners[];
  /** The branches of a CASE over the same and `m`, the membership of the actor, each giving a code. */
  readonly refusal: string;
  /** A CTE `new (org_id, id, revision, body, …)`: writes the rows of `numbered`, each with its `revision`. */
  readonly write: string;
  /** The row of the log for each row of `new`. */
  readonly log: string;
  /** Further CTEs, each behind a comma: what else comes with the row. */
  readonly besides?: string;
  /** The body before the write, or NULL. */
  readonly oldBody: string;
  /** The revision before the write, or NULL. */
  readonly standing: string;
  /** For the audit, where the history does not keep it: the record before and after, as JSON, over `new`, which gives back `returnedToAudit` too. */
  readonly changes?: SingleStatementChanges;
  /** A further result of the write: a condition over the organization, `$1`. */
  readonly tells?: string;
  /** Whether a row can change what is allowed or refused, as a condition like those of `refusal`: then policy tests are to be looked at. */
  readonly changesVerdicts?: string;
  /** Of what the rows add to an organization: at most `n.most` may be there. */
  readonly adds?: Counter['of'];
}

/** The last of the refusals: as many are there as may be. */
const full = ({ adds }: Parts): string => (adds === undefined ? '' : `WHEN h.${adds} >= n.most THEN 'limit_reached'`);

/** After all other refusals: what would be refused anyway is not repeated as a transaction. */
function unready({ changesVerdicts, owned, forOwners = [] }: Parts): string {
  const conditions = forOwners.map(({ when }) => when);
  return `WHEN n.accepted IS NOT TRUE AND ${takesPendingRole('n', owned.whose, conditions)} THEN 'needs_acceptance'
    ${changesVerdicts === undefined ? '' : `WHEN h.has_tests AND n.tested IS NOT TRUE AND ${changesVerdicts} THEN 'needs_tests'`}`;
}

/** The columns of a row that the audit needs. */
const audited = `n.at AS audit_at, n.actor AS audit_actor, ${Object.keys(singleStatementColumns)
  .filter((column) => column.startsWith('audit_'))
  .map((column) => `n.${column}`)
  .join(', ')}`;

/** The rows that are written. Of a set that adds more than there is room for, the first ones. */
function accepted({ adds }: Parts, set: boolean): string {
  const rows = 'SELECT * FROM seen WHERE refusal IS NULL';
  if (!set || adds === undefined) return `accepted AS NOT MATERIALIZED (${rows})`;
  return `accepted AS MATERIALIZED (
    SELECT * FROM (SELECT *, row_number() OVER () AS place FROM seen WHERE refusal IS NULL) AS placed WHERE place <= room)`;
}

/** And the others are refused. */
const beyond = ({ adds }: Parts, set: boolean): string =>
  set && adds !== undefined
    ? `UNION ALL SELECT 'limit_reached', NULL, NULL, NULL, NULL, NULL, id, NULL, NULL, NULL, NULL, NULL FROM seen WHERE refusal IS NULL AND id NOT IN (SELECT id FROM accepted)`
    : '';

function text(parts: Parts, source: string, set: boolean, table: CredentialTable): string {
  const counter = parts.adds === undefined ? undefined : ({ of: parts.adds, by: '+' } as const);
  const told = parts.tells ?? 'NULL::boolean';
  return `
    WITH seen AS MATERIALIZED (
      SELECT h.version, ${parts.select}, ${parts.standing} AS standing, ${parts.oldBody} AS old_body,
        CASE ${rightRefusals(parts.owned, table)} ${parts.refusal} ${full(parts)} ${unready(parts)} END AS refusal,
        ${parts.adds === undefined ? '' : `n.most - h.${parts.adds} AS room,`}
        ${audited}
      FROM heads h CROSS JOIN ${source} ${actorsMembership} ${parts.from ?? ''} WHERE h.org_id = $1),
    ${accepted(parts, set)},
    ${set ? takeRevisions('accepted', '', counter) : takeRevision('accepted', counter)},
    ${parts.write},
    log AS (${parts.log} RETURNING ${entryColumns}) ${parts.besides ?? ''},
    ${singleStatementEntries(parts.changes)}
    SELECT NULL AS refusal, NULL::bigint AS standing, ${told} AS told, ${entryColumns} FROM log
    UNION ALL SELECT refusal, standing, ${told}, NULL, NULL, NULL, id, old_body, NULL, NULL, NULL, NULL FROM seen WHERE refusal IS NOT NULL
    ${beyond(parts, set)}`;
}

export function singleStatement(name: string, parts: Parts): SingleStatementOperation {
  const columns = Object.entries({
    ...parts.columns,
    ...singleStatementColumns,
    tested: 'boolean',
    accepted: 'boolean',
  });
  const row = columns.map(([column, type], index) => `$${index + 2}::${type} AS ${column}`);
  const record = columns.map(([column, type]) => `${column} ${type}`);
  return {
    columns: columns.map(([column]) => column),
    one: statement(name, text(parts, `(SELECT ${row.join(', ')}) AS n`, false, 'tokens')),
    oneBySession: statement(`${name}_by_session`, text(parts, `(SELECT ${row.join(', ')}) AS n`, false, 'sessions')),
    many: statement(
      `${name}_set`,
      text(parts, `json_to_recordset($2::json) AS n (${record.join(', ')})`, true, 'both'),
    ),
  };
}

/** What the log has of a write: its own row, as it was inserted. Undefined where nothing was written. */
export function loggedBy({
  id,
  revision,
  kind,
  type,
  body,
  only_for,
  left_at,
  identity,
  era,
}: SingleStatementRow): Entry | undefined {
  if (revision === null || kind === null || type === null || body === null || left_at === null) return undefined;
  return entryOf({
    id,
    revision,
    kind,
    type,
    body,
    only_for,
    left_at,
    ...(identity == null ? {} : { identity }),
    ...(era == null ? {} : { era }),
  });
}

/** Reads a row as a record of this kind, or fails with its refusal. */
export function readRow<T>(row: SingleStatementRow, what: 'device' | 'group', quotas: Quotas): Stored<T> {
  const { id, refusal, revision, body, standing } = row;
  switch (refusal) {
    case null:
      return stored({ id, revision: revision ?? 0, body: body ?? '' });
    case 'unchanged':
      return stored({ id, revision: standing ?? 0, body: body ?? '' });
    case 'not_found':
      throw new StoreError({ code: 'not_found', what });
    case 'precondition_failed':
      throw new StoreError({ code: 'precondition_failed', revision: standing ?? 0 });
    case 'limit_reached':
      throw new StoreError({ code: 'limit_reached', what: `${what}s`, limit: quotas[`${what}s`] });
    case 'too_many_ranges':
      throw new StoreError({ code: 'too_many_ranges', limit: quotas.group_ranges });
    case 'too_many_device_ranges':
      // Which devices, its caller finds out.
      throw new StoreError({ code: 'too_many_device_ranges', limit: quotas.device_ranges, devices: [] });
    case 'would_open': {
      const { hostname } = JSON.parse(withRevision(body ?? '', standing ?? 0)) as DeviceRecord;
      throw new StoreError({ code: 'would_open', devices: [{ id: parseDeviceId(id), hostname }], more: 0 });
    }
    case 'newer_record':
      throw new StoreError({ code: 'newer_record', what });
    case 'trial_pending': {
      const { trial } = JSON.parse(withRevision(body ?? '', standing ?? 0)) as DeviceRecord | GroupRecord;
      throw new StoreError({ code: 'trial_pending', trial: trial?.id });
    }
    case 'credential_ended':
    case 'forbidden':
    case 'not_a_member':
    case 'public_key_taken':
    case 'labels_by_owner':
    case 'address_by_owner':
      throw new StoreError({ code: refusal });
    case 'needs_tests':
    case 'needs_acceptance':
      throw new StoreError({ code: 'unexpected' }, { message: `a write was not repeated: ${refusal}` });
    default:
      return refusal satisfies never;
  }
}

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

class StoredRow<T> implements Stored<T> {
  readonly id: string;
  readonly revision: number;
  readonly json: string;
  #record: T | undefined;

  constructor({ id, revision, body }: BodyRow) {
    this.id = id;
    this.revision = revision;
    this.json = withRevision(body, revision);
  }

  get record(): T {
    this.#record ??= JSON.parse(this.json) as T;
    return this.#record;
  }
}

/** A record from its row; the object is parsed when first asked for. */
export const stored = <T>(row: BodyRow): Stored<T> => new StoredRow(row);
