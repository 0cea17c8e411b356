/** Owns the check of which groups a device's list may name. The caller looks the groups up (reference 8). */
import type { GroupId } from '../../../policy/ids.ts';
import type { GroupListProblem } from '../../problems.ts';
import { listLimit, type Phase } from './phase.ts';

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
