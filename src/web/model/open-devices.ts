/** Owns the check which devices admit everything: any packet of a family, from anywhere, to every port. */
import type { Device } from '../../api/device.ts';
import { groupsOf } from '../../organization/of-records.ts';
import type { GroupState } from '../../organization/organization.ts';
import type { StoredRule } from '../../policy/rule.ts';
import type { Snapshot } from '../state/live.ts';

const everywhere = new Set(['0.0.0.0/0', '::/0']);

const admitsAll = ({ ip_protocol, from_port, to_port, ip_ranges = [], peers }: StoredRule): boolean => {
  if (ip_protocol !== 'ipv4' && ip_protocol !== 'ipv6') return false;
  if (from_port !== 0 || to_port !== 0) return false;
  return ip_ranges.length === 0 ? peers === undefined : ip_ranges.some((range) => everywhere.has(range));
};

/** Whether a device with such a group admits everything of at least one family. */
export const isOpen = (inbound: readonly StoredRule[]): boolean => inbound.some(admitsAll);

export const isOpenGroup = ({ rules, guardrail }: GroupState): boolean =>
  guardrail === undefined && isOpen(rules.inbound);

/** The devices with such a group, in the order given. Guardrails may still forbid some of it. */
export function openDevices({ devices, groups }: Pick<Snapshot, 'devices' | 'groups'>): readonly Device[] {
  // Each group is looked at once: many devices have the same.
  const known = new Map<GroupState, boolean>();
  const opens = (group: GroupState): boolean => {
    const open = known.get(group) ?? isOpenGroup(group);
    known.set(group, open);
    return open;
  };
  return devices.filter((device) =>
    groupsOf(device, groups).groups.some(({ group }) => group !== undefined && opens(group)),
  );
}
