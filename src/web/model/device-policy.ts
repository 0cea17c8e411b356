/** Owns what is in force: the groups that apply to a device, and the devices that a group applies to. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { effectivePolicy, type EffectivePolicy, type MissingGroups } from '../../policy/effective.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import type { Snapshot } from '../state/live.ts';
import type { Content } from './draft.ts';

export const policyGroup = (group: SecurityGroup): PolicyGroup => ({
  id: group.id,
  name: group.group_name,
  inbound: group.inbound_rules ?? [],
  outbound: group.outbound_rules ?? [],
});

/** Stands for the driver interface, which every device names for itself. */
export const exampleInterface = 'wg0';

/** A group on a device that has no other. */
export const policyOfContent = (content: Content): EffectivePolicy => ({
  source: 'list',
  groups: [
    {
      id: parseGroupId('00000000-0000-4000-8000-000000000000'),
      name: content.group_name,
      inbound: content.inbound_rules,
      outbound: content.outbound_rules,
    },
  ],
});

type Known = Pick<Snapshot, 'groupById' | 'defaultGroup'>;

export function policyOf(device: Device, { groupById, defaultGroup }: Known): EffectivePolicy | MissingGroups {
  return effectivePolicy({
    list: device.security_groups ?? [],
    find: (id) => {
      const group = groupById.get(id);
      return group === undefined ? undefined : policyGroup(group);
    },
    defaultGroup: defaultGroup === undefined ? undefined : policyGroup(defaultGroup),
  });
}

/** The groups that apply to a device: its list, or the default group while the list is empty. */
export const applies = (group: SecurityGroup, device: Device): boolean => {
  const list = device.security_groups ?? [];
  return group.is_default === true ? list.length === 0 : list.includes(group.id);
};

export const devicesUnder = (group: SecurityGroup, devices: readonly Device[]): readonly Device[] =>
  devices.filter((device) => applies(group, device));

/** How many devices each group applies to, counted in one walk. */
export function countUses({
  devices,
  defaultGroup,
}: Pick<Snapshot, 'devices' | 'defaultGroup'>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const add = (id: string): void => {
    counts.set(id, (counts.get(id) ?? 0) + 1);
  };
  for (const { security_groups: list = [] } of devices) {
    if (list.length > 0) list.forEach(add);
    else if (defaultGroup !== undefined) add(defaultGroup.id);
  }
  return counts;
}
