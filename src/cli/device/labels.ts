/** Owns changes of device labels on the command line. */
import { deviceName } from '../lookup/device.ts';
import type { Session } from '../session/session.ts';
import { readLabels } from '../terminal/label.ts';
import { changeList, type LabelFilter, type ListChange } from './change-each.ts';

export const changeLabels = (
  session: Session,
  way: ListChange,
  args: readonly string[],
  filter: LabelFilter,
): Promise<void> =>
  changeList(
    session,
    way,
    { args, filter },
    {
      field: 'labels',
      what: 'label',
      read: (words) => Promise.resolve(readLabels(words)),
      isSorted: true,
      line: (device) => `Labels of device ${deviceName(device)}: ${(device.labels ?? []).join(', ') || 'none'}.`,
    },
  );
