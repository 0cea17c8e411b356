/** Owns where an open device is on its way to enforced rules: observe, propose, watch only, try, enforce. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { groupsOf } from '../../organization/of-records.ts';
import type { Snapshot } from '../state/live.ts';
import type { GroupOn } from '../model/device-policy.ts';
import { isOpenGroup } from '../model/open-devices.ts';

export interface OpenPath {
  /** The groups that admit everything; none while a trial closes the device. */
  readonly openBy: readonly GroupOn[];
  /** The watch-only group that could close the device: the newest, where there are several. */
  readonly watched: SecurityGroup | undefined;
  /** Such a group while it is tried. */
  readonly tried: SecurityGroup | undefined;
}

/** Undefined for a device that is closed, and not only by a trial. */
export function openPath(
  device: Device,
  { groups, groupById }: Pick<Snapshot, 'groups' | 'groupById'>,
): OpenPath | undefined {
  const selection = groupsOf(device, groups);
  const records = (ids: readonly string[]): readonly SecurityGroup[] =>
    ids.flatMap((id) => groupById.get(id) ?? []).toSorted((a, b) => b.revision - a.revision);
  const openBy = selection.groups.flatMap(({ id, by, group }): readonly GroupOn[] =>
    group !== undefined && isOpenGroup(group) ? [{ id, by, group: groupById.get(id) }] : [],
  );
  const [watched] = records(selection.watchOnly.flatMap(({ id, guardrail }) => (guardrail === undefined ? [id] : [])));
  const tried = records(selection.groups.map(({ id }) => id)).find(({ trial }) => trial?.before?.mode === 'observe');
  return openBy.length > 0 || tried !== undefined ? { openBy, watched, tried } : undefined;
}
