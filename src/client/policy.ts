/** Owns the step from wire records to the policy of a device. */
import type { Device } from '../api/device.ts';
import type { SecurityGroup } from '../api/group.ts';
import { effectivePolicy, type EffectivePolicy, type MissingGroups } from '../policy/effective.ts';
import { deviceIdentity, type DeviceIdentity } from '../policy/fleet/identity.ts';
import { policyIsolation } from '../policy/isolation/isolation.ts';
import type { GroupBefore, PolicyGroup } from '../policy/rule.ts';
import { deviceFor, statesFor } from '../policy/trial/trial.ts';

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

/** The policy of a device by what is known of its organization's groups and isolated devices, or what is missing to know it. */
export function policyOfDevice(
  device: Device,
  groups: Iterable<SecurityGroup>,
  isolated: Iterable<DeviceIdentity>,
): EffectivePolicy | MissingGroups {
  const { security_groups = [], labels = [] } = deviceFor(device);
  const wanted = new Set<string>(security_groups);
  const known = new Map<string, PolicyGroup>();
  const byLabel: PolicyGroup[] = [];
  let defaultGroup: PolicyGroup | undefined;
  for (const group of statesFor([...groups], labels)) {
    if (wanted.has(group.id)) known.set(group.id, groupFromRecord(group));
    if (group.applies_to !== undefined) byLabel.push(groupFromRecord(group));
    if (group.is_default === true) defaultGroup = groupFromRecord(group);
  }
  const isolation = policyIsolation(deviceIdentity(device), isolated);
  const find = (id: string): PolicyGroup | undefined => known.get(id);
  return effectivePolicy({ list: security_groups, find, defaultGroup, labels, byLabel, isolation });
}
