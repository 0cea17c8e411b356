/** Owns which devices a group applies to: by their list, by label, or because it is the default. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { isEnforced } from '../../policy/effective.ts';
import { matchesAny } from '../../policy/fleet/selector.ts';

type Applying = Partial<Pick<SecurityGroup, 'id' | 'applies_to' | 'is_default'>>;

/** `groups`: all of the organization, because any that applies by label takes the place of the default group. */
export const devicesOf = (
  group: Applying,
  devices: readonly Device[],
  groups: readonly SecurityGroup[],
): readonly Device[] => devices.filter((device) => applies(group, device, groups));

function applies({ id, applies_to, is_default }: Applying, device: Device, groups: readonly SecurityGroup[]): boolean {
  const { security_groups: ids = [], labels = [] } = device;
  if ((id !== undefined && ids.includes(id)) || matchesAny(applies_to, labels)) return true;
  const enforced = groups.filter(isEnforced);
  const byLabel = enforced.some((one) => one.guardrail === undefined && matchesAny(one.applies_to, labels));
  const isWatchOnly = (one: string): boolean => groups.some((known) => known.id === one && !isEnforced(known));
  return is_default === true && ids.every(isWatchOnly) && !byLabel;
}
