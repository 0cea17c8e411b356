/** Owns the groups of devices: which are in effect and why, and the change of the lists. */
import type { AppliedGroup, Device } from '../../api/device.ts';
import { deviceName, findDevice } from '../lookup/device.ts';
import { groupIds } from '../lookup/group.ts';
import { changeSafely } from '../session/retry.ts';
import type { Session } from '../session/session.ts';
import { idColumn, renderTable } from '../terminal/table.ts';
import { changeEach, listAfter, readTarget, requireWords, type LabelFilter, type ListChange } from './change-each.ts';
import { groupNames, groupsForTable, reasonWords } from './group-names.ts';

export async function listGroups(session: Session, text: string): Promise<void> {
  const { organization_id, id } = await findDevice(session, text);
  const client = await session.client();
  const [applied, groups] = await Promise.all([
    client.devices.groups(organization_id, id, { signal: session.signal }),
    groupsForTable(session),
  ]);
  const nameOf = (wanted: string): string => groups.find((group) => group.id === wanted)?.group_name ?? '';
  await session.print({
    data: applied,
    ids: applied.map(({ group_id }) => group_id),
    table: (layout) =>
      renderTable<AppliedGroup>(
        [
          { head: 'GROUP', text: ({ group_id }) => nameOf(group_id) },
          idColumn('ID', ({ group_id }) => group_id, layout),
          { head: 'BECAUSE', text: ({ by }) => reasonWords[by] },
        ],
        applied,
        layout,
      ),
  });
}

export async function changeGroups(
  session: Session,
  way: ListChange,
  args: readonly string[],
  filter: LabelFilter,
): Promise<void> {
  const { signal } = session;
  const client = await session.client();
  const { picked, words } = await readTarget(session, args, filter);
  requireWords(way, words, 'group');
  const named = words.length === 0 ? [] : await groupIds(session, words);
  const groups = await groupsForTable(session);
  const change = (device: Device): Promise<Device | undefined> =>
    changeSafely(
      device,
      () => client.devices.get(device.organization_id, device.id, { signal }),
      async ({ organization_id, id, revision, security_groups: now = [] }) => {
        const after = listAfter(way, now, named);
        if (after.join() === now.join()) return undefined;
        return client.devices.update(organization_id, id, { security_groups: after }, { signal, ifMatch: revision });
      },
    );
  return changeEach(session, picked, {
    change,
    line: (device) => `Groups of device ${deviceName(device)}: ${groupNames(device, groups).join(', ')}.`,
  });
}
