/**
 * Owns the audit in the store: reading it, forgetting it, and the entries of what is no write (sign-ins). Those that come together go into one
 * statement, one in flight. A write's own entry is part of the write (`audit-entry.ts`).
 */
import type { WatchKind } from '../../../api/kinds.ts';
import { parseOrganizationId, parseUserId } from '../../../policy/ids.ts';
import { auditRow, insertAudit } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { toStoreError } from '../postgres/failure.ts';
import type { AuditRecord } from '../contract/records.ts';
import { statement } from '../postgres/sql.ts';
import type { Audit } from '../contract/audit.ts';
import { couldSee, recordOf } from './history.ts';

interface AuditRow {
  readonly id: string;
  readonly at: string;
  readonly org_id: string | null;
  readonly operation: string;
  readonly subject_id: string | null;
  readonly revision: number | null;
  readonly unchanged: boolean | null;
  readonly fields: string[] | null;
  readonly user_id: string;
  readonly username: string;
  readonly credential: AuditRecord['credential']['kind'];
  readonly credential_id: string | null;
  readonly address: string;
  readonly request_id: string;
}

/** What the history has of the record that an entry tells of. */
interface StateRow {
  readonly kind: WatchKind | null;
  readonly type: 'change' | 'delete' | null;
  readonly after_body: string | null;
  readonly before_body: string | null;
  readonly before_revision: number | null;
}

const columns = `a.id, a.at, a.org_id, a.operation, a.subject_id, a.revision, a.unchanged, a.fields, a.user_id, u.username, a.credential,
    a.credential_id, a.address, a.request_id`;
const select = `SELECT ${columns} FROM audit a JOIN users u ON u.id = a.user_id`;
/** Values: organization, before this id, limit, reader. */
const listOfOrganization = statement<AuditRow & StateRow>(
  'list_audit',
  `SELECT a.*, s.kind, s.type, CASE WHEN ${couldSee('s', '$4')} THEN s.body END AS after_body, b.body AS before_body, b.revision AS before_revision
   FROM (${select} WHERE a.org_id = $1 AND a.id < $2 ORDER BY a.id DESC LIMIT $3) AS a
   LEFT JOIN history s ON a.unchanged IS NULL AND s.org_id = $1 AND s.kind IN ('security-groups', 'device') AND s.id = a.subject_id AND s.revision = a.revision
   LEFT JOIN LATERAL (
     SELECT b.body, b.revision FROM (
       SELECT p.body, p.revision, p.type, p.only_for FROM history p
       WHERE p.org_id = $1 AND p.kind = s.kind AND p.id = s.id AND p.revision < s.revision ORDER BY p.revision DESC LIMIT 1) AS b
     WHERE b.type = 'change' AND ${couldSee('b', '$4')}) AS b ON true
   ORDER BY a.id DESC`,
);
const listOfServer = statement<AuditRow>(
  'list_server_audit',
  `${select} WHERE a.org_id IS NULL AND a.id < $1 ORDER BY a.id DESC LIMIT $2`,
);
/** Values: an id that was made at the border; ids ascend with time. */
const forgetAudit = statement<never>('forget_audit', 'DELETE FROM audit WHERE id < $1');

const newest = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** Bound of one statement. */
const maxBatch = 1_000;

/** The states around a write, without what its reader could not see. */
function statesOf(row: StateRow & { readonly revision: number | null }): Pick<AuditRecord, 'before' | 'after'> {
  const { kind, type, after_body, before_body, before_revision, revision } = row;
  if (kind === null || revision === null) return {};
  const before = before_body === null ? undefined : recordOf(kind, before_body, before_revision ?? 0);
  const after = after_body === null || type === 'delete' ? undefined : recordOf(kind, after_body, revision);
  return { ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) };
}

function record(row: AuditRow, states: Pick<AuditRecord, 'before' | 'after'> = {}): AuditRecord {
  return {
    id: row.id,
    at: row.at,
    operation: row.operation,
    ...(row.org_id === null ? {} : { organization_id: parseOrganizationId(row.org_id) }),
    ...(row.subject_id === null ? {} : { subject_id: row.subject_id }),
    ...(row.revision === null ? {} : { revision: row.revision }),
    ...(row.unchanged === true ? { unchanged: true } : {}),
    ...(row.fields === null ? {} : { fields: row.fields }),
    user_id: parseUserId(row.user_id),
    username: row.username,
    credential: { kind: row.credential, ...(row.credential_id === null ? {} : { id: row.credential_id }) },
    address: row.address,
    request_id: row.request_id,
    ...states,
  };
}

/** The first id that a moment could have. */
function firstIdAt(milliseconds: number): string {
  const hex = Math.max(0, Math.floor(milliseconds)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

interface Waiting {
  readonly row: object;
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

export function auditIn(context: Context, keepMs: number): Audit {
  const { reads, writes } = context;
  let waiting: Waiting[] = [];
  let busy = false;

  const drain = async (): Promise<void> => {
    busy = true;
    while (waiting.length > 0) {
      const batch = waiting.splice(0, maxBatch);
      try {
        await writes.run(insertAudit, [JSON.stringify(batch.map(({ row }) => row))]);
        for (const { resolve } of batch) resolve();
      } catch (cause) {
        for (const { reject } of batch) reject(toStoreError(cause));
      }
    }
    busy = false;
  };

  return {
    record(entry) {
      return new Promise((resolve, reject) => {
        waiting.push({ row: auditRow(context, entry), resolve, reject });
        if (!busy) void drain();
      });
    },

    async list(org, page) {
      const values = [page?.after ?? newest, page?.limit ?? null];
      if (org === undefined) return (await reads.run(listOfServer, values)).map((row) => record(row));
      const reader = page?.reader;
      const rows = await reads.run(listOfOrganization, [org, ...values, reader ?? null]);
      return rows.map((row) => record(row, reader === undefined ? {} : statesOf(row)));
    },

    async forget() {
      await writes.run(forgetAudit, [firstIdAt(context.clock() - keepMs)]);
    },
  };
}
