/** Owns the names of a device's groups for output. */
import type { AppliedGroup, Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { groupsOf } from '../../organization/of-records.ts';
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

const byWords = { list: '', label: ' (by label)', default: ' (default)' } as const;

/** The names of the groups that bind a device, guardrails aside; one that the reader may not see is shown by its id. */
export function groupNames(device: Device, groups: readonly SecurityGroup[]): readonly string[] {
  const selection = groupsOf(device, groups);
  const deciding = selection.groups.map(({ id, by, group }) => `${group?.name ?? id}${byWords[by]}`);
  return [
    // Nothing decides where the default group is not known.
    ...(deciding.length > 0 ? deciding : ['default (default)']),
    ...selection.watchOnly.map(({ name }) => `${name} (watch only)`),
  ];
}
