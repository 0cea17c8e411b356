/** Owns the step from wire records to the policy of a device. */
import type { Device } from '../api/device.ts';
import type { SecurityGroup } from '../api/group.ts';
import {
  effectivePolicy,
  idsIn,
  mayApplyByLabel,
  selectGroups,
  type EffectivePolicy,
  type GroupSelection,
  type GroupSource,
  type MissingGroups,
  type SelectingDevice,
} from '../policy/effective.ts';
import { deviceIdentity, type DeviceIdentity } from '../policy/fleet/identity.ts';
import { policyIsolation } from '../policy/isolation/isolation.ts';
import type { GroupBefore, PolicyGroup } from '../policy/rule.ts';

export const groupFromRecord = (group: SecurityGroup): PolicyGroup => ({
  id: group.id,
  name: group.group_name,
  inbound: group.inbound_rules ?? [],
  outbound: group.outbound_rules ?? [],
  ...(group.applies_to && { appliesTo: group.applies_to }),
  ...(group.guardrail && { guardrail: group.guardrail }),
  ...(group.mode && { mode: group.mode }),
  ...(group.trial && { trial: { ...group.trial, before: group.trial.before && beforeOf(group.trial.before) } }),
});

const beforeOf = (before: NonNullable<NonNullable<SecurityGroup['trial']>['before']>): GroupBefore => ({
  name: before.group_name,
  inbound: before.inbound_rules,
  outbound: before.outbound_rules,
  appliesTo: before.applies_to,
  mode: before.mode ?? 'enforce',
});

/** Lists of records never change, so each is read once. */
const sources = new WeakMap<readonly SecurityGroup[], GroupSource<PolicyGroup>>();

/** The groups of an organization, for `selectGroups`. */
function groupSource(groups: readonly SecurityGroup[]): GroupSource<PolicyGroup> {
  const read = sources.get(groups);
  if (read !== undefined) return read;
  const known = new Map<string, PolicyGroup>();
  const byLabel: PolicyGroup[] = [];
  let defaultGroup: PolicyGroup | undefined;
  for (const record of groups) {
    const group = groupFromRecord(record);
    known.set(record.id, group);
    if (mayApplyByLabel(group)) byLabel.push(group);
    if (record.is_default === true) defaultGroup = group;
  }
  const source: GroupSource<PolicyGroup> = { find: (id) => known.get(id), defaultGroup, byLabel };
  sources.set(groups, source);
  return source;
}

/** What a record says about its groups. */
export type HasGroups = Pick<Device, 'security_groups' | 'labels' | 'trial'>;

const selecting = ({ security_groups: list = [], labels = [], trial }: HasGroups): SelectingDevice => ({
  list,
  labels,
  trial,
});

/** Which of these groups the device has, and why. `groups`: all that the reader knows of the organization. */
export const groupsOf = (device: HasGroups, groups: readonly SecurityGroup[]): GroupSelection<PolicyGroup> =>
  selectGroups(selecting(device), groupSource(groups));

/** The devices that have the group, those among them on which it decides nothing. */
export const devicesOf = (
  group: string,
  devices: readonly Device[],
  groups: readonly SecurityGroup[],
): readonly Device[] => devices.filter((device) => idsIn(groupsOf(device, groups)).some((id) => id === group));

/** The policy of a device by what is known of its organization's groups and isolated devices, or what is missing to know it. */
export const policyOfDevice = (
  device: Device,
  groups: readonly SecurityGroup[],
  isolated: Iterable<DeviceIdentity>,
): EffectivePolicy | MissingGroups =>
  effectivePolicy({
    ...selecting(device),
    ...groupSource(groups),
    isolation: policyIsolation(deviceIdentity(device), isolated),
  });
