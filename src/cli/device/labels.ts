/** Owns changes of device labels on the command line. */
import { deviceName } from '../lookup/device.ts';
import type { Session } from '../session/session.ts';
import { readLabels } from '../terminal/label.ts';
import { changeList, type LabelFilter, type ListChange } from './change-each.ts';

export interface LabelOptions extends LabelFilter {
  readonly detach?: boolean;
}

export const changeLabels = (
  session: Session,
  way: ListChange,
  args: readonly string[],
  { detach = false, ...filter }: LabelOptions,
): Promise<void> =>
  changeList(
    session,
    way,
    { args, filter, detach },
    {
      field: 'labels',
      what: 'label',
      read: (words) => Promise.resolve(readLabels(words)),
      isSorted: true,
      line: (device) => `Labels of device ${deviceName(device)}: ${(device.labels ?? []).join(', ') || 'none'}.`,
    },
  );
