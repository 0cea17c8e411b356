/** Owns the revert of a change set: the set that restores each field to its earlier value, and the conflicts that prevent it. */
import type { GroupPatch, NewGroup } from '../../../organization/decide/group.ts';
import { parseDeviceId, parseGroupId, parseUserId } from '../../../policy/ids.ts';
import type { PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import type { Deletion, DeviceChange, GroupChange, NewChangeSet, RecordChange } from '../data/change-sets.ts';
import type { StoreProblem } from '../../problems.ts';
import type { GroupRecord } from '../data/records.ts';
import { refuseNewer } from '../write/records/newer.ts';
import { recordKey } from './record-changes.ts';

type Conflict = Extract<StoreProblem, { readonly code: 'changed_since' }>['records'][number];

/** The records that the set wrote, as they are now, by `recordKey`; absent: they do not exist. */
export type CurrentRecords = ReadonlyMap<string, Readonly<Record<string, unknown>>>;

export interface Reversal {
  readonly set: NewChangeSet;
  /** Records that have changed since. The set overwrites these changes. */
  readonly conflicts: readonly Conflict[];
}

/** A record leaves out what is empty. */
const valueOf = (record: Readonly<Record<string, unknown>>, name: string): string => {
  const value = record[name];
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
    ? ''
    : JSON.stringify(value);
};

const nameOf = (
  { before, after }: Pick<RecordChange, 'before' | 'after'>,
  now?: Readonly<Record<string, unknown>>,
): string => {
  const { group_name, hostname } = { ...now, ...after, ...before };
  return typeof group_name === 'string' ? group_name : typeof hostname === 'string' ? hostname : '';
};

/** What a person writes of a group; the rest follows from it. */
const groupFields = [
  'group_name',
  'group_description',
  'inbound_rules',
  'outbound_rules',
  'applies_to',
  'guardrail',
  'mode',
] as const;

const newGroupOf = (record: GroupRecord): NewGroup => ({
  group_name: record.group_name,
  group_description: record.group_description,
  inbound_rules: record.inbound_rules ?? [],
  outbound_rules: record.outbound_rules ?? [],
  ...(record.applies_to === undefined ? {} : { applies_to: record.applies_to }),
  ...(record.guardrail === undefined ? {} : { guardrail: record.guardrail }),
  ...(record.mode === undefined ? {} : { mode: record.mode }),
});

/** A record leaves out the mode of a group that enforces. */
const groupPatchOf = (before: Readonly<Record<string, unknown>>): GroupPatch =>
  'mode' in before ? { ...before, mode: before['mode'] === 'observe' ? 'observe' : 'enforce' } : before;

/** A group of the reversal as it will be. */
export const writtenGroup = (one: GroupChange, current: CurrentRecords): Partial<NewGroup> =>
  one.type === 'create' ? one.group : { ...current.get(recordKey('security-groups', one.id)), ...one.patch };

/** The opposite of what a set has changed, given what its records are now. */
export function reversalOf(changes: readonly RecordChange[], current: CurrentRecords): Reversal {
  const groups: GroupChange[] = [];
  const devices: DeviceChange[] = [];
  const deletes: Deletion[] = [];
  const conflicts: Conflict[] = [];
  let policyTests: readonly PolicyTest[] | undefined;
  for (const change of changes) {
    const { kind, id, before, after } = change;
    const now = current.get(recordKey(kind, id));
    // The way back would leave out what this program does not know: reference 4.5 (6).
    if (before !== undefined && kind !== 'policy-tests') refuseNewer(kind === 'device' ? 'device' : 'group', before);
    const conflict = (why: Conflict['why']): void => void conflicts.push({ id, name: nameOf(change, now), why });
    if (kind === 'policy-tests') {
      if (valueOf(now ?? {}, 'policy_tests') !== valueOf(after ?? {}, 'policy_tests')) conflict('changed');
      policyTests = (before?.['policy_tests'] ?? []) as readonly PolicyTest[];
    } else if (before === undefined && after !== undefined) {
      // It was created: what it said then must be what it says now. Where it is gone, there is nothing to do.
      if (now === undefined) continue;
      if (groupFields.some((name) => valueOf(now, name) !== valueOf(after, name))) conflict('changed');
      deletes.push({ kind: 'security-groups', id: parseGroupId(id) });
    } else if (before !== undefined && after === undefined) {
      if (kind === 'device') conflict('deleted_device');
      else if (now !== undefined) conflict('exists');
      else {
        const record = before as unknown as GroupRecord;
        const owner = record.user_id === undefined ? ('organization' as const) : parseUserId(record.user_id);
        groups.push({ type: 'create', id: parseGroupId(id), owner, group: newGroupOf(record) });
      }
    } else if (before !== undefined && after !== undefined) {
      if (now === undefined) {
        conflict('gone');
        continue;
      }
      if (Object.keys(after).some((name) => valueOf(now, name) !== valueOf(after, name))) conflict('changed');
      const fields = Object.keys(before);
      if (kind === 'device') devices.push({ id: parseDeviceId(id), patch: before, fields });
      else groups.push({ type: 'update', id: parseGroupId(id), patch: groupPatchOf(before), fields });
    }
  }
  return { set: { groups, devices, deletes, policyTests }, conflicts };
}
