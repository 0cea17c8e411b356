/** Owns the groups of devices on the command line: their names, which are in effect and why, and changes of the lists. */
import { deviceName, findDevice } from '../lookup/device.ts';
import { groupIds, allGroups } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { idColumn } from '../terminal/table.ts';
import { changeList, type LabelFilter, type ListChange } from './change-each.ts';
import type { AppliedGroup, Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { groupsOf } from '../../organization/of-records.ts';

export async function listGroups(session: Session, text: string): Promise<void> {
  const { organization_id, id } = await findDevice(session, text);
  const client = await session.client();
  const [applied, groups] = await Promise.all([client.devices.groups(organization_id, id), groupsForTable(session)]);
  const nameOf = (wanted: string): string => groups.find((group) => group.id === wanted)?.group_name ?? '';
  await session.printList(applied, {
    none: 'No group applies to the device.',
    id: 'group_id',
    columns: (layout) => [
      { head: 'GROUP', text: ({ group_id }) => nameOf(group_id) },
      idColumn('ID', ({ group_id }) => group_id, layout),
      { head: 'BECAUSE', text: ({ by }) => reasonWords[by] },
    ],
  });
}

export async function changeGroups(
  session: Session,
  way: ListChange,
  args: readonly string[],
  filter: LabelFilter,
): Promise<void> {
  const groups = await groupsForTable(session);
  return changeList(
    session,
    way,
    { args, filter },
    {
      field: 'security_groups',
      what: 'group',
      read: (words) => (words.length === 0 ? Promise.resolve([]) : groupIds(session, words)),
      isSorted: false,
      line: (device) => `Groups of device ${deviceName(device)}: ${groupNames(device, groups).join(', ')}.`,
    },
  );
}

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
