/** Owns what a device's list of groups may contain (reference 8). */
import type { GroupId } from '../../../policy/ids.ts';
import { refuse, type GroupListProblem } from '../../problems.ts';
import type { Quotas } from '../contract/quotas.ts';
import { listProblems } from '../contract/change/list-problems.ts';
import type { Phase } from '../contract/phase.ts';
import type { Runner } from '../postgres/connection.ts';
import { inOrg, statement } from '../postgres/sql.ts';

interface GroupRow {
  readonly id: string;
  readonly user_id: string | null;
  readonly is_default: boolean;
  readonly is_applied: boolean;
  readonly guardrail: string | null;
  readonly ranges: number;
  /** The trial by which the group exists at all; it may end at any moment, and the group with it. */
  readonly made_by: string | null;
}

/** Values: organization, ids. */
const findGroups = statement<GroupRow>(
  'find_groups',
  `SELECT id, user_id, is_default, is_applied, guardrail, inbound_ranges + outbound_ranges AS ranges,
     CASE WHEN trial::json ->> 'before' IS NULL THEN trial::json ->> 'id' END AS made_by FROM security_groups g WHERE id = ANY ($2::uuid[]) AND ${inOrg('g')}`,
);

export interface CheckedList {
  /** Every problem of the list, at once. */
  readonly problems: readonly GroupListProblem[];
  /** Users' groups that become visible to everyone with this list, and those that only their owner sees afterwards. */
  readonly entering: readonly string[];
  readonly leaving: readonly string[];
}

/** What a list would mean for a device of this user that had another list before. */
export async function checkList(
  { tx, org }: { readonly tx: Runner; readonly org: string },
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
  const found = new Map((await tx.run(findGroups, [org, [...list, ...oldList]])).map((group) => [group.id, group]));
  for (const id of list) {
    const trial = oldList.includes(id) ? null : (found.get(id)?.made_by ?? null);
    if (trial !== null && trial !== own) refuse({ code: 'trial_pending', trial });
  }
  const problems = listProblems(list, { user, phase, find: (id) => found.get(id) });
  const ranges = problems.length > 0 ? 0 : list.reduce((sum, id) => sum + (found.get(id)?.ranges ?? 0), 0);
  if (ranges > quotas.device_ranges)
    problems.push({ index: -1, code: 'too_many_ranges', allowed: quotas.device_ranges, ranges });
  const users = [...found.values()].filter(({ user_id }) => user_id !== null);
  const listed = new Set<string>(list);
  return {
    problems,
    entering: users.filter(({ id, is_applied }) => listed.has(id) && !is_applied).map(({ id }) => id),
    leaving: users.filter(({ id }) => !listed.has(id)).map(({ id }) => id),
  };
}
