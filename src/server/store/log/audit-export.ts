/** Owns what waits for the audit log: rows that triggers add in the transaction of the entry (docs/decisions/audit-and-evidence.md). */
import type { RefusedReport, WaitingEntries } from '../data/audit.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { readEntries } from './audit.ts';

const enableAudit = statement<never>('enable_audit_log', 'ALTER TABLE audit ENABLE TRIGGER audit_log');
const enableRefused = statement<never>('enable_refused_log', 'ALTER TABLE flows ENABLE TRIGGER audit_log');
const disableRefused = statement<never>('disable_refused_log', 'ALTER TABLE flows DISABLE TRIGGER audit_log');
/** Gives a row for each table whose trigger is on. */
const readTriggers = statement<{ table: string }>(
  'read_audit_log_triggers',
  `SELECT tgrelid::regclass::text AS table FROM pg_trigger WHERE tgname = 'audit_log' AND tgenabled <> 'D'`,
);
/** Values: limit. */
const readWaiting = statement<{ n: string; audit_id: string | null }>(
  'read_audit_outbox',
  'SELECT n::text AS n, audit_id FROM audit_outbox ORDER BY audit_outbox.n LIMIT $1',
);
const readLost = statement<{ lost: number }>('read_audit_log_lost', 'SELECT lost FROM audit_log_losses');
/** Values: places, entries that were reported as lost. */
const removeWritten = statement<never>(
  'remove_written_audit',
  `WITH told AS (UPDATE audit_log_losses SET lost = greatest(0, lost - $2::bigint) WHERE $2::bigint > 0)
   DELETE FROM audit_outbox WHERE n = ANY ($1::text[]::bigint[])`,
);
/** Refused traffic goes first: a device can report much of it, and no entry of the audit shall make room for it. Values: rows that may wait. */
const dropOldest = statement<never>(
  'drop_oldest_audit',
  `WITH surplus AS (SELECT greatest(0, count(*) - $1::bigint) AS rows FROM audit_outbox),
   gone AS (
     DELETE FROM audit_outbox WHERE (SELECT rows FROM surplus) > 0
       AND n IN (SELECT n FROM audit_outbox ORDER BY audit_id IS NOT NULL, n LIMIT (SELECT rows FROM surplus)) RETURNING n)
   UPDATE audit_log_losses SET lost = lost + (SELECT count(*) FROM gone) WHERE EXISTS (SELECT FROM gone)`,
);

/** A few days of a busy server, and some 60 MB. */
const mostWaiting = 1_000_000;

export function auditExportIn(
  context: Context,
  readRefused: (places: readonly string[]) => Promise<readonly RefusedReport[]>,
) {
  const { reads, writes } = context;
  return {
    /** From now on every committed audit entry waits until it was written, whichever server commits it; with `refused`, reports of traffic too. */
    async enable({ refused }: { readonly refused: boolean }): Promise<void> {
      const on = new Set((await writes.run(readTriggers, [])).map(({ table }) => table));
      // A change of a trigger waits for all writers, so it is made only where it is needed.
      if (!on.has('audit')) await writes.run(enableAudit, []);
      if (refused !== on.has('flows')) await writes.run(refused ? enableRefused : disableRefused, []);
    },

    /** What waits, about in the order of its commits. What was read is read again until `written` names it. */
    async next(limit: number): Promise<WaitingEntries> {
      const rows = await writes.run(readWaiting, [limit]);
      const ids = rows.flatMap(({ audit_id }) => audit_id ?? []);
      const reports = rows.filter(({ audit_id }) => audit_id === null).map(({ n }) => n);
      const [entries, refused, dropped] = await Promise.all([
        ids.length === 0 ? new Map() : readEntries(writes, ids),
        reports.length === 0 ? [] : readRefused(reports),
        reads.run(readLost, []),
      ]);
      const missing = ids.length - entries.size + reports.length - refused.length;
      return {
        entries: ids.flatMap((id) => entries.get(id) ?? []),
        refused,
        lost: missing + (dropped[0]?.lost ?? 0),
        places: rows.map(({ n }) => n),
      };
    },

    async written({ places, lost }: WaitingEntries): Promise<void> {
      await writes.run(removeWritten, [places, lost]);
    },

    /** Drops the oldest where too many wait, refused traffic before entries of the audit, and counts them as lost. `most`: a million unless given. */
    async forget(most: number = mostWaiting): Promise<void> {
      await writes.run(dropOldest, [most]);
    },
  };
}

export type AuditExport = ReturnType<typeof auditExportIn>;
