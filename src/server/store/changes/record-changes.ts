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

/** A record of one kind may have the id of a record of another. */
export const recordKey = (kind: RecordChange['kind'], id: string): string => `${kind} ${id}`;

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
  isCreated: boolean,
): RecordChange | undefined {
  if (last.type === 'delete') return old === undefined ? undefined : { kind, id, before: parsed(old) };
  // A group that the set does not name enters or leaves the view of others with a list: it was there before.
  if (old === undefined) return isCreated ? { kind, id, after: parsed(last) } : undefined;
  const { before = {}, after = {} } = changeOf(parsed(old), parsed(last));
  // The same for a group that the set names, and that changes in nothing that it says.
  return Object.keys(after).length === 0
    ? undefined
    : { kind, id, before: before as Record<string, unknown>, after: after as Record<string, unknown> };
}

/** `created`: the groups that the set has created. */
export function recordChanges(
  log: readonly EntryRow[],
  before: RecordsBefore,
  created: ReadonlySet<string>,
): TransactionChanges {
  const last = new Map<string, EntryRow>();
  for (const entry of log) if (entry.kind !== 'organization') last.set(recordKey(entry.kind, entry.id), entry);
  const records = [...last.values()].flatMap((entry) => {
    const { kind, id } = entry;
    if (kind === 'organization') return [];
    const old = (kind === 'device' ? before.devices : before.groups).get(id);
    return changeIn(kind, id, entry, old, kind === 'security-groups' && created.has(id)) ?? [];
  });
  return {
    records,
    head: log.at(-1)?.revision,
    stored: (id) => {
      const entry = last.get(recordKey('device', id));
      if (entry === undefined) throw new Error(`the transaction has not written ${id}`);
      return stored<DeviceRecord>(entry);
    },
  };
}
