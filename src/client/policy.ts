/** Owns the way from the records of the wire to the policy in force on a device. */
import type { Device } from '../api/device.ts';
import type { SecurityGroup } from '../api/group.ts';
import { effectivePolicy, type EffectivePolicy, type MissingGroups } from '../policy/effective.ts';
import type { PolicyGroup } from '../policy/rule.ts';

export const groupFromRecord = (group: SecurityGroup): PolicyGroup => ({
  id: group.id,
  name: group.group_name,
  inbound: group.inbound_rules ?? [],
  outbound: group.outbound_rules ?? [],
  ...(group.applies_to && { appliesTo: group.applies_to }),
  ...(group.guardrail && { guardrail: group.guardrail }),
});

/** The policy of a device by what is known of its organization's groups, or what is missing to know it. */
export function policyOfDevice(
  { security_groups = [], labels = [] }: Pick<Device, 'security_groups' | 'labels'>,
  groups: Iterable<SecurityGroup>,
): EffectivePolicy | MissingGroups {
  const wanted = new Set<string>(security_groups);
  const known = new Map<string, PolicyGroup>();
  const byLabel: PolicyGroup[] = [];
  let defaultGroup: PolicyGroup | undefined;
  for (const group of groups) {
    if (wanted.has(group.id)) known.set(group.id, groupFromRecord(group));
    if (group.applies_to !== undefined) byLabel.push(groupFromRecord(group));
    if (group.is_default === true) defaultGroup = groupFromRecord(group);
  }
  return effectivePolicy({ list: security_groups, find: (id) => known.get(id), defaultGroup, labels, byLabel });
}
