/** Owns the change of the labels of devices. */
import type { Device } from '../../api/device.ts';
import { deviceName } from '../lookup/device.ts';
import { changeSafely } from '../session/retry.ts';
import type { Session } from '../session/session.ts';
import { readLabels } from '../terminal/label.ts';
import { changeEach, listAfter, readTarget, requireWords, type LabelFilter, type ListChange } from './change-each.ts';

export async function changeLabels(
  session: Session,
  way: ListChange,
  args: readonly string[],
  filter: LabelFilter,
): Promise<void> {
  const { signal } = session;
  const client = await session.client();
  const { picked, words } = await readTarget(session, args, filter);
  requireWords(way, words, 'label');
  const named = readLabels(words);
  const change = (device: Device): Promise<Device | undefined> =>
    changeSafely(
      device,
      () => client.devices.get(device.organization_id, device.id, { signal }),
      async ({ organization_id, id, revision, labels: now = [] }) => {
        const after = listAfter(way, now, named).toSorted();
        if (after.join() === now.join()) return undefined;
        return client.devices.update(organization_id, id, { labels: after }, { signal, ifMatch: revision });
      },
    );
  return changeEach(session, picked, {
    change,
    line: (device) => `Labels of device ${deviceName(device)}: ${(device.labels ?? []).join(', ') || 'none'}.`,
  });
}
