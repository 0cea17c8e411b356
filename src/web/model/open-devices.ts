/** Owns the check which devices admit everything: any packet of a family, from anywhere, to every port. */
import type { Device } from '../../api/device.ts';
import { groupsOf } from '../../client/policy.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import type { Snapshot } from '../state/live.ts';

const everywhere = new Set(['0.0.0.0/0', '::/0']);

const admitsAll = ({ ip_protocol, from_port, to_port, ip_ranges = [], peers }: StoredRule): boolean => {
  if (ip_protocol !== 'ipv4' && ip_protocol !== 'ipv6') return false;
  if (from_port !== 0 || to_port !== 0) return false;
  return ip_ranges.length === 0 ? peers === undefined : ip_ranges.some((range) => everywhere.has(range));
};

/** Whether a device with this group admits everything of at least one family. */
export const isOpenGroup = ({ inbound, guardrail }: PolicyGroup): boolean =>
  guardrail === undefined && inbound.some(admitsAll);

/** The devices with such a group, in the order given. Guardrails may still forbid some of it. */
export function openDevices({ devices, groups }: Pick<Snapshot, 'devices' | 'groups'>): readonly Device[] {
  // Each group is looked at once: many devices have the same.
  const known = new Map<PolicyGroup, boolean>();
  const isOpen = (group: PolicyGroup): boolean => {
    const open = known.get(group) ?? isOpenGroup(group);
    known.set(group, open);
    return open;
  };
  return devices.filter((device) =>
    groupsOf(device, groups).groups.some(({ group }) => group !== undefined && isOpen(group)),
  );
}
