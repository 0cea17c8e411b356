/** Owns the groups of devices on the command line: which are in effect and why, and changes of the lists. */
import { deviceName, findDevice } from '../lookup/device.ts';
import { groupIds } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { idColumn } from '../terminal/table.ts';
import { changeList, type LabelFilter, type ListChange } from './change-each.ts';
import { groupNames, groupsForTable, reasonWords } from './group-names.ts';

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
