/** Owns the check which devices admit everything: any packet of a family, from anywhere, to every port. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { StoredRule } from '../../policy/rule.ts';
import type { Snapshot } from '../state/live.ts';
import { groupsOn } from './device-policy.ts';

const everywhere = new Set(['0.0.0.0/0', '::/0']);

const admitsAll = ({ ip_protocol, from_port, to_port, ip_ranges = [], peers }: StoredRule): boolean => {
  if (ip_protocol !== 'ipv4' && ip_protocol !== 'ipv6') return false;
  if (from_port !== 0 || to_port !== 0) return false;
  return ip_ranges.length === 0 ? peers === undefined : ip_ranges.some((range) => everywhere.has(range));
};

/** Whether a device with this group admits everything of at least one family. */
export const isOpenGroup = ({ inbound_rules, guardrail }: SecurityGroup): boolean =>
  guardrail === undefined && (inbound_rules ?? []).some(admitsAll);

/** The devices with such a group, in the order given. Guardrails may still forbid some of it. */
export function openDevices({
  devices,
  groups,
  groupById,
  defaultGroup,
}: Pick<Snapshot, 'devices' | 'groups' | 'groupById' | 'defaultGroup'>): readonly Device[] {
  const open = new Set(groups.filter(isOpenGroup).map(({ id }) => id as string));
  if (open.size === 0) return [];
  const groupsOf = groupsOn({ groups, groupById, defaultGroup });
  return devices.filter((device) => groupsOf(device).some(({ id }) => open.has(id)));
}
