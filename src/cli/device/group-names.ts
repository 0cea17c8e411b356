/** Owns the names of a device's groups for output. */
import type { AppliedGroup, Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { matchesAny } from '../../policy/fleet/selector.ts';
import { allGroups } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';

/** Only people read groups by name. */
export const groupsForTable = async (session: Session): Promise<readonly SecurityGroup[]> =>
  session.isForPeople ? allGroups(session) : [];

/** Why a group has a say on a device. */
export const reasonWords: { readonly [By in AppliedGroup['by']]: string } = {
  list: 'the device lists it',
  label: 'it applies by label',
  default: 'it is the default group',
  guardrail: 'it is a guardrail',
};

/** The names of the groups that bind a device, guardrails aside; one that the reader may not see is shown by its id. */
export function groupNames(
  { security_groups = [], labels = [] }: Device,
  groups: readonly SecurityGroup[],
): readonly string[] {
  const listed = security_groups.map((id) => groups.find((group) => group.id === id)?.group_name ?? id);
  const byLabel = groups.filter(
    ({ id, applies_to, guardrail }) =>
      guardrail === undefined && !security_groups.includes(id) && matchesAny(applies_to, labels),
  );
  if (listed.length > 0 || byLabel.length > 0) {
    return [...listed, ...byLabel.map(({ group_name }) => `${group_name} (by label)`)];
  }
  return [`${groups.find(({ is_default }) => is_default === true)?.group_name ?? 'default'} (default)`];
}
