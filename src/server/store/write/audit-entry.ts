/**
 * Owns the audit entry as part of the write that it tells of: the same statement, or the same transaction. So there is neither a change
 * without its entry nor an entry without its change, whatever fails or is killed in between.
 */
import type { Runner } from '../postgres/connection.ts';
import type { Context } from './context.ts';
import { statement } from '../postgres/sql.ts';
import type { AuditNote, NewAuditRecord } from '../contract/audit.ts';

export const auditColumns =
  'id, at, org_id, operation, subject_id, revision, fields, user_id, credential, credential_id, address, request_id';

/** Values: entries as a JSON array. */
export const insertAudit = statement<never>(
  'insert_audit',
  `INSERT INTO audit (${auditColumns}) SELECT ${auditColumns} FROM json_populate_recordset(NULL::audit, $1::json)`,
);

/** What only the write itself knows of its entry. */
export interface Told {
  /** What was made, changed or ended. */
  readonly subject_id: string;
  readonly revision?: number;
  /** Where it is told; null: to the administrator of the server. */
  readonly org_id: string | null;
}

export const auditRow = (context: Pick<Context, 'newId' | 'clock'>, entry: NewAuditRecord): object => ({
  id: context.newId(),
  at: new Date(context.clock()).toISOString(),
  org_id: entry.organization_id ?? null,
  operation: entry.operation,
  subject_id: entry.subject_id ?? null,
  revision: entry.revision ?? null,
  fields: entry.fields ?? null,
  user_id: entry.user_id,
  credential: entry.credential.kind,
  credential_id: entry.credential.id ?? null,
  address: entry.address,
  request_id: entry.request_id,
});

/** The value that `insertAudit` takes, for one entry. */
export const auditValue = (context: Pick<Context, 'newId' | 'clock'>, note: AuditNote, told: Told): string =>
  JSON.stringify([
    auditRow(context, {
      ...note,
      subject_id: told.subject_id,
      revision: told.revision,
      organization_id: told.org_id ?? undefined,
    }),
  ]);

/** The columns that a quick write carries for its entry, beside its own `id`, `at` and `actor`. Without an `audit_id` there is none. */
export const quickColumns = {
  audit_id: 'uuid',
  audit_operation: 'text',
  audit_fields: 'text[]',
  audit_credential: 'text',
  audit_credential_id: 'uuid',
  audit_address: 'text',
  audit_request: 'text',
} as const;

export function quickItem(context: Pick<Context, 'newId'>, note: AuditNote | undefined) {
  return {
    audit_id: note === undefined ? null : context.newId(),
    audit_operation: note?.operation ?? null,
    audit_fields: note?.fields ?? null,
    audit_credential: note?.credential.kind ?? null,
    audit_credential_id: note?.credential.id ?? null,
    audit_address: note?.address ?? null,
    audit_request: note?.request_id ?? null,
  };
}

const quickEntry = (revision: string): string =>
  `SELECT audit_id, audit_at, $1::uuid, audit_operation, id, ${revision}, audit_fields, audit_actor, audit_credential, audit_credential_id,
     audit_address, audit_request`;

/** A CTE over `seen` and `accepted` of a quick write. What was asked and stood already is told too: its caller gets a success. */
export const quickEntries = `audited AS (
  INSERT INTO audit (${auditColumns})
  ${quickEntry('revision')} FROM accepted WHERE audit_id IS NOT NULL
  UNION ALL ${quickEntry('standing')} FROM seen WHERE refusal = 'unchanged' AND audit_id IS NOT NULL)`;

/** Runs a write outside of the organizations' order together with its entry; without a note it is the write alone. */
export function withEntry<T>(
  context: Context,
  note: AuditNote | undefined,
  work: (runner: Runner) => Promise<T>,
  told: (result: T) => Told,
): Promise<T> {
  if (note === undefined) return work(context.writes);
  return context.transactions.run(async (tx) => {
    const result = await work(tx);
    await tx.run(insertAudit, [auditValue(context, note, told(result))]);
    return result;
  });
}
