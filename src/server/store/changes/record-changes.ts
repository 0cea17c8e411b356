/** Owns what a transaction has changed: each record before and after, from what it has logged and from reads before the write. */
import type { Entry } from '../data/change-log.ts';
import type { RecordChange } from '../data/change-sets.ts';
import type { DeviceState, GroupState } from '../write/records/records.ts';
import { changeOf } from '../write/audit-entry.ts';

/** The records of a transaction before it. */
export interface RecordsBefore {
  readonly groups: ReadonlyMap<string, GroupState>;
  readonly devices: ReadonlyMap<string, DeviceState>;
}

/** A record of one kind may have the id of a record of another. */
export const recordKey = (kind: RecordChange['kind'], id: string): string => `${kind} ${id}`;

/** Without its trial, which ends by itself: what the set changed is what stays of it. */
function lasting(record: object): Record<string, unknown> {
  const { trial: _trial, ...rest } = record as Record<string, unknown>;
  return rest;
}

/** Of a record that was changed only the fields that differ; nothing where none does. */
function changeIn(
  { kind, id, type, json }: Entry & { readonly kind: 'device' | 'security-groups' },
  old: GroupState | DeviceState | undefined,
  isCreated: boolean,
): RecordChange | undefined {
  const before = old === undefined ? undefined : lasting({ ...old.record, revision: old.revision });
  if (type === 'delete') return before === undefined ? undefined : { kind, id, before };
  const now = lasting(JSON.parse(json) as object);
  // A group that the set does not name enters or leaves the view of others with a list: it was there before.
  if (before === undefined) return isCreated ? { kind, id, after: now } : undefined;
  const { before: left = {}, after = {} } = changeOf(before, now);
  // The same for a group that the set names, and that changes in nothing that it says.
  return Object.keys(after).length === 0
    ? undefined
    : { kind, id, before: left as Record<string, unknown>, after: after as Record<string, unknown> };
}

/** `created`: the groups that the set has created. */
export function recordChanges(
  log: readonly Entry[],
  before: RecordsBefore,
  created: ReadonlySet<string>,
): readonly RecordChange[] {
  const last = new Map<string, Entry>();
  for (const entry of log) if (entry.kind !== 'organization') last.set(recordKey(entry.kind, entry.id), entry);
  return [...last.values()].flatMap((entry) => {
    const { kind, id } = entry;
    if (kind === 'organization') return [];
    const old = (kind === 'device' ? before.devices : before.groups).get(id);
    return changeIn({ ...entry, kind }, old, kind === 'security-groups' && created.has(id)) ?? [];
  });
}
