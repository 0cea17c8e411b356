/**
 * Owns the audit in the store: reading, retention, and the entries of events that are not writes (sign-ins). Entries
 * that arrive together share one statement, and one statement is in flight at a time. The entry of a write is part of
 * the write (`audit-entry.ts`).
 */
import type { WatchKind } from '../../../api/kinds.ts';
import {
  parseChangeSetId,
  parseOrganizationId,
  parseUserId,
  type OrganizationId,
  type UserId,
} from '../../../policy/ids.ts';
import { auditRow, auditRows, changeOf, insertAudit } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { toStoreError } from '../postgres/failure.ts';
import type { AuditRecord, DeviceRecord, GroupRecord } from '../data/records.ts';
import type { Runner } from '../postgres/connection.ts';
import { rowsWithin, statement, withinBytes, withRevision, type PageRow, type Value } from '../postgres/sql.ts';
import { firstIdAt } from '../write/uuid.ts';
import { couldSee } from './history.ts';
import type { NewAuditRecord } from '../data/audit.ts';
import type { Page, Rows } from '../data/page.ts';

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
  readonly subject_name: string | null;
  readonly before: string | null;
  readonly after: string | null;
  readonly change_id: string | null;
}

/** The history's states of the record that an entry is about. */
interface StateRow {
  readonly kind: WatchKind | null;
  readonly type: 'change' | 'delete' | null;
  /** Of the state that the write made, or ended. */
  readonly body: string | null;
  /** The previous state of a group. The history keeps every state of a group. */
  readonly old_body: string | null;
  readonly old_revision: number | null;
}

const columns = `a.id, a.at, a.org_id, a.operation, a.subject_id, a.revision, a.unchanged, a.fields, a.user_id, u.username, a.credential,
    a.credential_id, a.address, a.request_id, a.subject_name, a.before, a.after, a.change_id`;
const select = `SELECT ${columns} FROM audit a JOIN users u ON u.id = a.user_id`;
/**
 * The state that an entry's write made. The limit keeps PostgreSQL to one look-up per entry: a planner without statistics,
 * as after a restore, would otherwise read the whole history.
 */
const stateOf = (organization: string): string =>
  `LEFT JOIN LATERAL (
     SELECT h.* FROM history h WHERE a.unchanged IS NULL AND h.org_id = ${organization} AND h.kind IN ('security-groups', 'device')
       AND h.id = a.subject_id AND h.revision = a.revision LIMIT 1) AS s ON true`;
/**
 * Which entries `a`. Ids ascend with time, which bounds what is read; clocks of servers differ by less than the margin.
 * The last values: before this id, limit, from this id on, since, until.
 */
const isAsked = (n: number): string =>
  `a.id < $${n} AND a.id >= $${n + 2} AND a.at BETWEEN $${n + 3} AND $${n + 4} ORDER BY a.id DESC LIMIT $${n + 1}`;
const margin = 60_000;
const bytesOfEntry = ['p.before', 'p.after', 'p.body', 'p.old_body']
  .map((text) => `coalesce(octet_length(${text}), 0)`)
  .join(' + ');
/** Values: organization, reader, what is asked, and bytes. */
const listOfOrganization = statement<AuditRow & StateRow & PageRow>(
  'list_audit',
  withinBytes(
    `SELECT a.*, s.kind, s.type, CASE WHEN ${couldSee('s', '$2')} THEN s.body END AS body, b.body AS old_body, b.revision AS old_revision
   FROM (${select} WHERE a.org_id = $1 AND ${isAsked(3)}) AS a
   ${stateOf('$1')}
   LEFT JOIN LATERAL (
     SELECT b.body, b.revision FROM (
       SELECT p.body, p.revision, p.type, p.only_for FROM history p
       WHERE s.kind = 'security-groups' AND p.org_id = $1 AND p.kind = s.kind AND p.id = s.id AND p.revision < s.revision ORDER BY p.revision DESC LIMIT 1) AS b
     WHERE b.type = 'change' AND ${couldSee('b', '$2')}) AS b ON true`,
    { bytes: '$8', length: bytesOfEntry, order: 'p.id DESC' },
  ),
);
/** Values: ids. As its owner would see each of them. */
const readById = statement<AuditRow & StateRow>(
  'read_audit_entries',
  `SELECT a.*, s.kind, s.type, s.body, b.body AS old_body, b.revision AS old_revision
   FROM (${select} WHERE a.id = ANY ($1::uuid[])) AS a
   ${stateOf('a.org_id')}
   LEFT JOIN LATERAL (
     SELECT p.body, p.revision, p.type FROM history p
     WHERE s.kind = 'security-groups' AND p.org_id = a.org_id AND p.kind = s.kind AND p.id = s.id AND p.revision < s.revision ORDER BY p.revision DESC LIMIT 1) AS b
     ON b.type = 'change'`,
);
const listOfServer = statement<AuditRow>('list_server_audit', `${select} WHERE a.org_id IS NULL AND ${isAsked(1)}`);
/**
 * Ids ascend with time, so each batch begins where the one before it ended. Values: from this id on, an id that was made at the border, how many at once.
 */
const forgetAudit = statement<{ id: string }>(
  'forget_audit',
  `DELETE FROM audit WHERE ctid = ANY (ARRAY(
     SELECT ctid FROM audit WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3)) RETURNING id`,
);
/** Entries that one statement deletes: a statement must end in time, however many entries are too old. */
const forgottenAtOnce = 1_000;
const oldest = '00000000-0000-0000-0000-000000000000';

const newest = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** Bound of one statement. */
const maxBatch = 1_000;

type AuditDetails = Pick<AuditRecord, 'before' | 'after' | 'subject'>;

const parsed = (text: string | null): object | undefined => (text === null ? undefined : (JSON.parse(text) as object));

const auditDetails = ({
  before,
  after,
  subject,
}: { [Name in keyof AuditDetails]: AuditDetails[Name] | undefined }): AuditDetails => ({
  ...(subject === undefined ? {} : { subject }),
  ...(before === undefined ? {} : { before }),
  ...(after === undefined ? {} : { after }),
});

/** The details that the entry itself holds. For a change they are only the fields that differ. */
function ownWords({ subject_name, before, after }: AuditRow): AuditDetails {
  const [old, now] = [parsed(before), parsed(after)];
  const { hostname, group_name } = (old ?? {}) as Partial<DeviceRecord & GroupRecord>;
  const name = subject_name ?? hostname ?? group_name;
  // The default group that a reset creates is another record, so the entry shows both records completely.
  const idOf = (one: { readonly id?: unknown } | undefined): unknown => one?.id;
  const isOther = idOf(old) !== idOf(now);
  const change = old === undefined || now === undefined || isOther ? { before: old, after: now } : changeOf(old, now);
  return auditDetails({ subject: name === undefined ? undefined : { name }, ...change });
}

/** What the history says of it, without what its reader could not see. */
function historyWords({ kind, type, body, old_body, old_revision, revision }: AuditRow & StateRow): AuditDetails {
  if (kind === null || revision === null) return {};
  const standing = body === null ? undefined : (JSON.parse(withRevision(body, revision)) as object);
  if (kind === 'device') {
    // Of a device that was made or deleted. What was changed of one, the entry says itself.
    if (standing === undefined) return {};
    const subject = { name: (standing as DeviceRecord).hostname };
    return type === 'delete' ? { subject, before: standing } : { subject, after: standing };
  }
  const group = standing as GroupRecord | undefined;
  const old = old_body === null ? undefined : (JSON.parse(withRevision(old_body, old_revision ?? 0)) as GroupRecord);
  const { group_name: name, guardrail } = old ?? group ?? {};
  const subject = name === undefined ? undefined : { name, ...(guardrail === undefined ? {} : { guardrail }) };
  if (type === 'delete') return auditDetails({ subject, before: group, after: undefined });
  if (old === undefined || group === undefined) return auditDetails({ subject, before: old, after: group });
  return auditDetails({ subject, ...changeOf(old, group) });
}

function record(row: AuditRow, words: AuditDetails = {}): AuditRecord {
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
    ...(row.change_id === null ? {} : { change_id: parseChangeSetId(row.change_id) }),
    ...words,
  };
}

/** With the states before and after, as far as the row has them. */
function detailed(row: AuditRow & StateRow): AuditRecord {
  const { before, after, kind, type, body, revision } = row;
  if (before !== null && after === null && kind === 'device' && type === 'change' && body !== null)
    return record(row, ownWords({ ...row, after: withRevision(body, revision ?? 0) }));
  // A change of a device that an earlier version recorded has no words of its own, and the history knows only some of its fields.
  const isPartOnly = kind === 'device' && type === 'change' && row.operation !== 'createDevice';
  return record(row, before !== null || after !== null || isPartOnly ? ownWords(row) : historyWords(row));
}

/** Entries by their ids, with the states before and after. */
export async function readEntries(reads: Runner, ids: readonly string[]): Promise<ReadonlyMap<string, AuditRecord>> {
  return new Map((await reads.run(readById, [ids])).map((row) => [row.id, detailed(row)]));
}

/** The values of `isAsked`. */
function askedValues({ after, limit, since, until }: Parameters<Audit['list']>[1] = {}): readonly Value[] {
  const last = until === undefined ? newest : firstIdAt(Date.parse(until) + margin);
  const first = since === undefined ? oldest : firstIdAt(Date.parse(since) - margin);
  const before = after !== undefined && after < last ? after : last;
  return [before, limit ?? null, first, since ?? '-infinity', until ?? 'infinity'];
}

interface PendingAuditRow {
  readonly row: string;
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

export function auditIn(context: Context, keepMs: number) {
  const { reads, writes } = context;
  let waiting: PendingAuditRow[] = [];
  let busy = false;

  const drain = async (): Promise<void> => {
    busy = true;
    while (waiting.length > 0) {
      const batch = waiting.splice(0, maxBatch);
      try {
        await writes.run(insertAudit, [auditRows(batch.map(({ row }) => row))]);
        for (const { resolve } of batch) resolve();
      } catch (cause) {
        for (const { reject } of batch) reject(toStoreError(cause));
      }
    }
    busy = false;
  };

  return {
    /** For what is no write, such as a sign-in. Resolves when the entry is durable. */
    record(entry: NewAuditRecord): Promise<void> {
      return new Promise((resolve, reject) => {
        waiting.push({ row: auditRow(context, entry), resolve, reject });
        if (!busy) void drain();
      });
    },

    /**
     * Newest first, of the times from `since` to `until`; `after` is the last id seen. Without an organization: what concerns the whole server. With a reader, the states before and
     * after as well, where the history has them and the reader could see them.
     */
    async list(
      org: OrganizationId | undefined,
      page?: Page & {
        readonly reader?: UserId | undefined;
        readonly since?: string | undefined;
        readonly until?: string | undefined;
      },
    ): Promise<Rows<AuditRecord>> {
      const values = askedValues(page);
      if (org === undefined) return (await reads.run(listOfServer, values)).map((row) => record(row, ownWords(row)));
      const reader = page?.reader;
      const rows = await reads.run(listOfOrganization, [org, reader ?? null, ...values, page?.bytes ?? null]);
      return rowsWithin(rows, (row) => (reader === undefined ? record(row) : detailed(row)));
    },

    /** Forgets entries past their retention. */
    async forget(): Promise<void> {
      const border = firstIdAt(context.clock() - keepMs);
      for (let from = oldest, more = true; more;) {
        const dropped = await writes.run(forgetAudit, [from, border, forgottenAtOnce]);
        from = dropped.reduce((latest, { id }) => (id > latest ? id : latest), from);
        more = dropped.length === forgottenAtOnce;
      }
    },
  };
}

export type Audit = ReturnType<typeof auditIn>;
