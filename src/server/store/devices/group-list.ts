/** Owns what a device's list of groups may hold (reference 8). */
import type { GroupId } from '../../../policy/ids.ts';
import type { GroupListProblem } from '../contract/errors.ts';
import type { Quotas } from '../contract/quotas.ts';
import { listLimit, type Phase } from '../contract/phase.ts';
import type { Runner } from '../postgres/connection.ts';
import { inOrg, statement } from '../postgres/sql.ts';

/** Values: organization, ids. */
const findGroups = statement<{ id: string; user_id: string | null; is_default: boolean; ranges: number }>(
  'find_groups',
  `SELECT id, user_id, is_default, inbound_ranges + outbound_ranges AS ranges FROM security_groups g WHERE id = ANY ($2::uuid[]) AND ${inOrg('g')}`,
);

/** Every problem of a list for a device of this user, at once. */
export async function listProblems(
  { tx, org }: { readonly tx: Runner; readonly org: string },
  { phase, quotas }: { readonly phase: Phase; readonly quotas: Quotas },
  user: string,
  list: readonly GroupId[],
): Promise<readonly GroupListProblem[]> {
  const allowed = listLimit[phase];
  const problems: GroupListProblem[] = list.length > allowed ? [{ index: -1, code: 'too_many', allowed }] : [];
  const found = new Map((await tx.run(findGroups, [org, list])).map((group) => [group.id, group]));
  list.forEach((id, index) => {
    const group = found.get(id);
    if (group === undefined || (group.user_id !== null && group.user_id !== user))
      problems.push({ index, code: 'unknown_group', group: id });
    else if (group.is_default) problems.push({ index, code: 'default_group', group: id });
    else if (list.indexOf(id) < index) problems.push({ index, code: 'duplicate', group: id });
  });
  const ranges = problems.length > 0 ? 0 : list.reduce((sum, id) => sum + (found.get(id)?.ranges ?? 0), 0);
  if (ranges > quotas.device_ranges)
    problems.push({ index: -1, code: 'too_many_ranges', allowed: quotas.device_ranges, ranges });
  return problems;
}
