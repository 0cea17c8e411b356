/** Owns what a transaction has changed: each record before and after, from the log and from reads before the write. */
import type { RecordChange } from '../contract/change/change-sets.ts';
import type { DeviceRecord, Stored } from '../contract/records.ts';
import { withRevision } from '../postgres/sql.ts';
import { changeOf } from '../write/audit-entry.ts';
import type { EntryRow } from '../write/log-entry.ts';
import { stored } from '../write/single-statement.ts';

interface BodyRow {
  readonly revision: number;
  readonly body: string;
}

/** The records of a transaction before it. */
export interface RecordsBefore {
  readonly groups: ReadonlyMap<string, BodyRow>;
  readonly devices: ReadonlyMap<string, BodyRow>;
}

export interface TransactionChanges {
  readonly records: readonly RecordChange[];
  /** The last revision that the transaction took; undefined where it took none. */
  readonly head: number | undefined;
  /** A device that the transaction has written, as it is. */
  readonly stored: (id: string) => Stored<DeviceRecord>;
}

/** Without its trial, which ends by itself: what the set changed is what stays of it. */
function parsed({ body, revision }: BodyRow): Record<string, unknown> {
  const { trial: _trial, ...record } = JSON.parse(withRevision(body, revision)) as Record<string, unknown>;
  return record;
}

/** Of a record that was changed only the fields that differ; nothing where none does. */
function changeIn(
  kind: RecordChange['kind'],
  id: string,
  last: EntryRow,
  old: BodyRow | undefined,
): RecordChange | undefined {
  if (last.type === 'delete') return old === undefined ? undefined : { kind, id, before: parsed(old) };
  if (old === undefined) return { kind, id, after: parsed(last) };
  const { before = {}, after = {} } = changeOf(parsed(old), parsed(last));
  // A group that enters or leaves the view of others changes in nothing that it says.
  return Object.keys(after).length === 0
    ? undefined
    : { kind, id, before: before as Record<string, unknown>, after: after as Record<string, unknown> };
}

export function recordChanges(log: readonly EntryRow[], before: RecordsBefore): TransactionChanges {
  const last = new Map<string, EntryRow>();
  for (const entry of log) last.set(entry.id, entry);
  const records = [...last.values()].flatMap((entry) => {
    const { kind, id } = entry;
    if (kind === 'organization') return [];
    return changeIn(kind, id, entry, (kind === 'device' ? before.devices : before.groups).get(id)) ?? [];
  });
  return {
    records,
    head: log.at(-1)?.revision,
    stored: (id) => {
      const entry = last.get(id);
      if (entry === undefined) throw new Error(`the transaction has not written ${id}`);
      return stored<DeviceRecord>(entry);
    },
  };
}
