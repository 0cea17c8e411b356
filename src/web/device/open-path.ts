/** Owns where an open device is on its way to enforced rules: observe, propose, watch only, try, enforce. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { isEnforced } from '../../policy/effective.ts';
import { matchesAny } from '../../policy/fleet/selector.ts';
import type { Snapshot } from '../state/live.ts';
import { groupsOn, type GroupOn } from '../model/device-policy.ts';
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
  { groups, groupById, defaultGroup }: Pick<Snapshot, 'groups' | 'groupById' | 'defaultGroup'>,
): OpenPath | undefined {
  const { security_groups: list = [], labels = [] } = device;
  const openBy = groupsOn({ groups, groupById, defaultGroup })(device).filter(
    ({ group }) => group !== undefined && isOpenGroup(group),
  );
  const own = groups
    .filter(
      (group) => group.guardrail === undefined && (list.includes(group.id) || matchesAny(group.applies_to, labels)),
    )
    .toSorted((a, b) => b.revision - a.revision);
  const watched = own.find((group) => !isEnforced(group));
  const tried = own.find((group) => isEnforced(group) && group.trial?.before?.mode === 'observe');
  return openBy.length > 0 || tried !== undefined ? { openBy, watched, tried } : undefined;
}
