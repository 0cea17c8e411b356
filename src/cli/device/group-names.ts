/** Owns the names of a device's groups for output. */
import type { AppliedGroup, Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { isEnforced } from '../../policy/effective.ts';
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
  const found = security_groups.map((id) => ({ id, group: groups.find((group) => group.id === id) }));
  const listed = found.filter(({ group }) => group === undefined || isEnforced(group));
  const watchOnly = groups.filter(
    (group) => !isEnforced(group) && (security_groups.includes(group.id) || matchesAny(group.applies_to, labels)),
  );
  const byLabel = groups.filter(
    (group) =>
      group.guardrail === undefined &&
      isEnforced(group) &&
      !security_groups.includes(group.id) &&
      matchesAny(group.applies_to, labels),
  );
  const names = [
    ...listed.map(({ id, group }) => group?.group_name ?? id),
    ...byLabel.map(({ group_name }) => `${group_name} (by label)`),
  ];
  const fallback = `${groups.find(({ is_default }) => is_default === true)?.group_name ?? 'default'} (default)`;
  return [
    ...(names.length > 0 ? names : [fallback]),
    ...watchOnly.map(({ group_name }) => `${group_name} (watch only)`),
  ];
}
