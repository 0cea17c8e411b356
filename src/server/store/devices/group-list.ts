/** Owns what a device's list of groups may contain (reference 8). */
import type { GroupId } from '../../../policy/ids.ts';
import { refuse, type GroupListProblem } from '../../problems.ts';
import type { Quotas } from '../data/quotas.ts';
import { listProblems } from '../data/list-problems.ts';
import type { Phase } from '../data/phase.ts';
import { rangesOf } from '../write/records/groups.ts';
import type { Locked } from '../write/transaction.ts';

export interface CheckedList {
  /** Every problem of the list, at once. */
  readonly problems: readonly GroupListProblem[];
  /** Users' groups that become visible to everyone with this list, and those that only their owner sees afterwards. */
  readonly entering: readonly string[];
  readonly leaving: readonly string[];
}

/** What a list would mean for a device of this user that had another list before. */
export async function checkList(
  { records }: Pick<Locked, 'records'>,
  { phase, quotas }: { readonly phase: Phase; readonly quotas: Quotas },
  {
    user,
    list,
    oldList,
    trial: own,
  }: {
    readonly user: string;
    readonly list: readonly GroupId[];
    readonly oldList: readonly string[];
    readonly trial?: string | undefined;
  },
): Promise<CheckedList> {
  const ids = new Set<string>([...list, ...oldList]);
  await records.load({ groups: ids });
  const recordOf = (id: string) => records.group(id)?.record;
  for (const id of list) {
    const trial = recordOf(id)?.trial;
    // A trial by which the group exists at all may end at any moment, and the group with it.
    if (trial?.before === null && !oldList.includes(id) && trial.id !== own)
      refuse({ code: 'trial_pending', trial: trial.id });
  }
  const find = (id: GroupId) => {
    const { user_id = null, is_default = false, guardrail = null } = recordOf(id) ?? {};
    return recordOf(id) && { user_id, is_default, guardrail };
  };
  const problems = listProblems(list, { user, phase, find });
  const ranges = problems.length > 0 ? 0 : list.reduce((sum, id) => sum + rangesOf(recordOf(id) ?? {}), 0);
  if (ranges > quotas.device_ranges)
    problems.push({ index: -1, code: 'too_many_ranges', allowed: quotas.device_ranges, ranges });
  const users = [...ids].filter((id) => recordOf(id)?.user_id !== undefined);
  const listed = new Set<string>(list);
  return {
    problems,
    entering: users.filter((id) => listed.has(id) && records.group(id)?.isApplied === false),
    leaving: users.filter((id) => !listed.has(id)),
  };
}
