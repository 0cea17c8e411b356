/** Owns the change of the groups that are applied to devices. */
import type { Device } from '../../api/device.ts';
import { allDevices, deviceName, pickDevices } from '../lookup/device.ts';
import { groupIds } from '../lookup/group.ts';
import { changeSafely } from '../session/retry.ts';
import type { Session } from '../session/session.ts';
import { changeEach, listAfter, type ListChange } from './change-each.ts';
import { groupNames, groupsForTable } from './group-names.ts';

export async function changeGroups(
  session: Session,
  way: ListChange,
  text: string,
  names: readonly string[],
): Promise<void> {
  const { signal } = session;
  const client = await session.client();
  const picked = pickDevices(await allDevices(session), text);
  const named = names.length === 0 ? [] : await groupIds(session, names);
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
