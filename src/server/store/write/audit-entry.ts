/**
 * Owns the audit entry as part of its write: the same statement or the same transaction. So there is no change without
 * an entry and no entry without a change, also after a failure or a crash.
 */
import type { AuditNote, NewAuditRecord } from '../data/audit.ts';
import type { Stored } from '../data/records.ts';
import { statement } from '../postgres/sql.ts';
import { now, type Stamps } from './stamp.ts';

const auditColumns =
  'id, at, org_id, operation, subject_id, revision, unchanged, fields, user_id, credential, credential_id, address, request_id, subject_name, before, after, change_id';

/** Inserts entries that this parameter holds as a JSON array. */
export const insertEntries = (parameter: string): string =>
  `INSERT INTO audit (${auditColumns}) SELECT ${auditColumns} FROM json_populate_recordset(NULL::audit, ${parameter}::json)`;

/** Values: entries as a JSON array. */
export const insertAudit = statement<never>('insert_audit', insertEntries('$1'));

/** What a write did to a record, where the history does not keep it. No secret is ever part of it. */
export interface AuditChange {
  /** What the record was called before the write; of a new one, what it is called. */
  readonly name?: string | undefined;
  /** The written fields before the write, read in its transaction; absent for a new record. */
  readonly before?: object | undefined;
  /** The same as the write left them; absent after a deletion. */
  readonly after?: object | undefined;
  /** Both as JSON, where they are known so. */
  readonly texts?: { readonly before: string; readonly after?: string | undefined } | undefined;
  /** The write was allowed, and the record was already as it asks. */
  readonly unchanged?: true | undefined;
}

/** The fields that differ between two states of a record. A state leaves out what is empty: the other one then says what kind of nothing it was. */
export function changeOf<T extends object>(before: T, after: T): Required<Pick<AuditChange, 'before' | 'after'>> {
  const [old, fresh] = [before, after] as Readonly<Record<string, unknown>>[];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !bookkeeping.has(name) && JSON.stringify(old?.[name]) !== JSON.stringify(fresh?.[name]),
  );
  const pick = (from: Readonly<Record<string, unknown>> = {}, other: Readonly<Record<string, unknown>> = {}): object =>
    Object.fromEntries(names.map((name) => [name, from[name] ?? (Array.isArray(other[name]) ? [] : null)]));
  return { before: pick(old, fresh), after: pick(fresh, old) };
}
/** What moves with every write, or never. */
const bookkeeping = new Set(['revision', 'created_at', 'updated_at']);

/** What only the write itself knows of its entry. */
export interface AuditSubject extends AuditChange {
  /** What was made, changed or ended. */
  readonly subject_id: string;
  readonly revision?: number;
  /** Whose audit holds the entry; null: the server's, which its administrator reads. */
  readonly org_id: string | null;
}

/** The subject of a write that gave back this record. */
export const subjectOf = ({ id, revision }: Stored<unknown>): Omit<AuditSubject, 'org_id'> => ({
  subject_id: id,
  revision,
});

const textOf = (value: object | undefined): string => (value === undefined ? 'null' : JSON.stringify(value));

/** An entry as JSON text, with the states as they are in it: PostgreSQL keeps the text of each. `id`: the order of the audit is that of ids. */
export function auditRow(
  stamps: Stamps,
  entry: NewAuditRecord & AuditChange,
  { id = stamps.newId(), at = now(stamps) }: { readonly id?: string | undefined; readonly at?: string } = {},
): string {
  const { texts } = entry;
  const row = {
    id,
    at,
    org_id: entry.organization_id,
    operation: entry.operation,
    subject_id: entry.subject_id,
    revision: entry.revision,
    unchanged: entry.unchanged,
    fields: entry.fields,
    user_id: entry.user_id,
    credential: entry.credential.kind,
    credential_id: entry.credential.id,
    address: entry.address,
    request_id: entry.request_id,
    subject_name: entry.name,
    change_id: entry.change_id,
  };
  const [before, after] = [texts?.before ?? textOf(entry.before), texts?.after ?? textOf(entry.after)];
  return `${JSON.stringify(row).slice(0, -1)},"before":${before},"after":${after}}`;
}

/** The value that `insertAudit` takes. */
export const auditRows = (rows: readonly string[]): string => `[${rows.join(',')}]`;

/** The same for one entry. */
export const auditValue = (stamps: Stamps, note: AuditNote, { org_id, ...subject }: AuditSubject): string =>
  auditRows([auditRow(stamps, { ...note, ...subject, organization_id: org_id ?? undefined })]);
