/**
 * Owns the audit in the store: reading it, forgetting it, and the entries of what is no write (sign-ins). Those that come together go into one
 * statement, one in flight. A write's own entry is part of the write (`audit-entry.ts`).
 */
import { parseOrganizationId, parseUserId } from '../../../policy/ids.ts';
import { auditRow, insertAudit } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { toStoreError } from '../postgres/failure.ts';
import type { AuditRecord } from '../contract/records.ts';
import { statement } from '../postgres/sql.ts';
import type { Audit } from '../contract/audit.ts';

interface AuditRow {
  readonly id: string;
  readonly at: string;
  readonly org_id: string | null;
  readonly operation: string;
  readonly subject_id: string | null;
  readonly revision: number | null;
  readonly fields: string[] | null;
  readonly user_id: string;
  readonly username: string;
  readonly credential: AuditRecord['credential']['kind'];
  readonly credential_id: string | null;
  readonly address: string;
  readonly request_id: string;
}

const select = `
  SELECT a.id, a.at, a.org_id, a.operation, a.subject_id, a.revision, a.fields, a.user_id, u.username, a.credential, a.credential_id,
    a.address, a.request_id
  FROM audit a JOIN users u ON u.id = a.user_id`;
/** Values: organization, before this id, limit. */
const listOfOrganization = statement<AuditRow>(
  'list_audit',
  `${select} WHERE a.org_id = $1 AND a.id < $2 ORDER BY a.id DESC LIMIT $3`,
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

function record(row: AuditRow): AuditRecord {
  return {
    id: row.id,
    at: row.at,
    operation: row.operation,
    ...(row.org_id === null ? {} : { organization_id: parseOrganizationId(row.org_id) }),
    ...(row.subject_id === null ? {} : { subject_id: row.subject_id }),
    ...(row.revision === null ? {} : { revision: row.revision }),
    ...(row.fields === null ? {} : { fields: row.fields }),
    user_id: parseUserId(row.user_id),
    username: row.username,
    credential: { kind: row.credential, ...(row.credential_id === null ? {} : { id: row.credential_id }) },
    address: row.address,
    request_id: row.request_id,
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
      const rows =
        org === undefined
          ? await reads.run(listOfServer, values)
          : await reads.run(listOfOrganization, [org, ...values]);
      return rows.map((row) => record(row));
    },

    async forget() {
      await writes.run(forgetAudit, [firstIdAt(context.clock() - keepMs)]);
    },
  };
}
