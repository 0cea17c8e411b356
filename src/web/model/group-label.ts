/** Owns how a list of choices names a group, so that groups of the same name can be distinguished. */
import type { SecurityGroup } from '../../api/group.ts';
import { shortId } from '../../client/words/short-id.ts';

/** `web`, and where several are called so `web · organization · 564e23ea`. */
export function groupLabel(group: SecurityGroup, all: readonly SecurityGroup[]): string {
  const { id, group_name, user_id } = group;
  const isShared = all.some((other) => other.id !== id && other.group_name === group_name);
  if (!isShared) return group_name;
  return [group_name, ...(user_id === undefined ? ['organization'] : []), shortId(id)].join(' · ');
}
