/** Owns which groups a device's list may name (reference 8), and what the list changes for those who see the groups. */
import type { GroupId } from '../../policy/ids.ts';
import { rangesOf } from './group.ts';
import { listLimit, type Phase } from './phase.ts';
import type { GroupContent } from './records.ts';
import { refuse, type GroupListProblem } from './refusal.ts';

/** A group, as far as it matters whether a list may name it. */
export interface ListableGroup {
  /** Null: the organization's own. */
  readonly user_id: string | null;
  readonly is_default: boolean;
  readonly guardrail: string | null;
}

export interface ListContext {
  /** The device's user. */
  readonly user: string;
  readonly phase: Phase;
  readonly find: (id: GroupId) => ListableGroup | undefined;
}

/** Every problem of the list, at once. */
export function listProblems(list: readonly GroupId[], { user, phase, find }: ListContext): GroupListProblem[] {
  const allowed = listLimit[phase];
  const problems: GroupListProblem[] = list.length > allowed ? [{ index: -1, code: 'too_many', allowed }] : [];
  list.forEach((id, index) => {
    const group = find(id);
    if (group === undefined || (group.user_id !== null && group.user_id !== user))
      problems.push({ index, code: 'unknown_group', group: id });
    else if (group.is_default) problems.push({ index, code: 'default_group', group: id });
    else if (group.guardrail !== null) problems.push({ index, code: 'guardrail', group: id });
    else if (list.indexOf(id) < index) problems.push({ index, code: 'duplicate', group: id });
  });
  return problems;
}

export interface CheckedList {
  /** Every problem of the list, at once. */
  readonly problems: readonly GroupListProblem[];
  /** Users' groups that become visible to everyone with this list, and those that only their owner sees afterwards. */
  readonly entering: readonly string[];
  readonly leaving: readonly string[];
}

export interface ListWanted {
  /** The device's user. */
  readonly user: string;
  readonly list: readonly GroupId[];
  readonly oldList: readonly string[];
  /** The trial that the list is part of. */
  readonly trial?: string | undefined;
}

/** What a list would mean for a device of this user that had another list before. */
export function checkList(
  { user, list, oldList, trial: own }: ListWanted,
  known: {
    readonly phase: Phase;
    readonly quotas: { readonly device_ranges: number };
    readonly group: (id: string) => { readonly record: GroupContent; readonly isApplied: boolean } | undefined;
  },
): CheckedList {
  const { phase, quotas, group } = known;
  for (const id of list) {
    const trial = group(id)?.record.trial;
    // A trial by which the group exists at all may end at any moment, and the group with it.
    if (trial?.before === null && !oldList.includes(id) && trial.id !== own)
      refuse({ code: 'trial_pending', trial: trial.id });
  }
  const find = (id: GroupId): ListableGroup | undefined => {
    const record = group(id)?.record;
    return (
      record && {
        user_id: record.user_id ?? null,
        is_default: record.is_default ?? false,
        guardrail: record.guardrail ?? null,
      }
    );
  };
  const problems = listProblems(list, { user, phase, find });
  const ranges = problems.length > 0 ? 0 : list.reduce((sum, id) => sum + rangesOf(group(id)?.record ?? {}), 0);
  if (ranges > quotas.device_ranges)
    problems.push({ index: -1, code: 'too_many_ranges', allowed: quotas.device_ranges, ranges });
  const ids = new Set<string>([...list, ...oldList]);
  const users = [...ids].filter((id) => group(id)?.record.user_id !== undefined);
  const listed = new Set<string>(list);
  return {
    problems,
    entering: users.filter((id) => listed.has(id) && group(id)?.isApplied === false),
    leaving: users.filter((id) => !listed.has(id)),
  };
}
