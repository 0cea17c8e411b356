/** Owns the conversion of a row of the change log to an entry. */
import { parseUserId } from '../../../policy/ids.ts';
import type { Entry } from '../data/change-log.ts';
import { withRevision } from '../postgres/sql.ts';

export interface EntryRow {
  readonly revision: number;
  readonly kind: Entry['kind'];
  readonly type: Entry['type'];
  readonly id: string;
  readonly body: string;
  readonly only_for: string | null;
  readonly left_at: number;
  readonly identity?: string | null;
  readonly era?: string | null;
  readonly hidden_from?: string | null;
}

/** The columns of `changes` that make up an entry. */
export const entryColumns = 'revision, kind, type, id, body, only_for, left_at, identity, era';

export const entryOf = (row: EntryRow): Entry => ({
  revision: row.revision,
  kind: row.kind,
  type: row.type,
  id: row.id,
  json: withRevision(row.body, row.revision),
  only_for: row.only_for === null ? undefined : parseUserId(row.only_for),
  left_at: row.left_at,
  ...(row.identity == null ? {} : { identity: withRevision(row.identity, row.revision) }),
  ...(row.era == null ? {} : { era: row.era }),
  ...(row.hidden_from == null ? {} : { hidden_from: parseUserId(row.hidden_from) }),
});
