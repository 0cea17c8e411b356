/** Owns which groups apply to a device, and which devices a group applies to. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { groupsOf, type HasGroups } from '../../organization/of-records.ts';
import { idsIn, type EffectivePolicy } from '../../policy/effective.ts';
import { resolvePolicy, type Membership } from '../../policy/fleet/resolve.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { Snapshot } from '../state/live.ts';
import type { Content } from './draft.ts';

/** A placeholder for the driver interface, whose name each device chooses itself. */
export const exampleInterface = 'wg0';

/** A group on a device that has no other. */
export function policyOfContent(content: Content, fleet: Membership): EffectivePolicy {
  const group: PolicyGroup = {
    id: parseGroupId('00000000-0000-4000-8000-000000000000'),
    name: content.group_name,
    inbound: content.inbound_rules,
    outbound: content.outbound_rules,
  };
  const { guardrail } = content;
  const resolved = (policy: EffectivePolicy): EffectivePolicy =>
    resolvePolicy(policyAt(policy, Date.now()).policy, fleet);
  if (guardrail === undefined) return resolved({ source: 'list', groups: [group] });
  const guardrails = { forbid: [], require: [], [guardrail]: [{ ...group, guardrail }] };
  return resolved({ source: 'list', groups: [], guardrails });
}

/** How many devices a group applies to, and on how many of them the policy is in force. */
export interface GroupUse {
  readonly devices: number;
  readonly inForce: number;
}

/** The use of each group, counted in one walk. */
export function countUses(
  { devices, groups }: Pick<Snapshot, 'devices' | 'groups'>,
  isInForce: (device: Device) => boolean,
): ReadonlyMap<string, GroupUse> {
  const uses = new Map<string, { devices: number; inForce: number }>();
  for (const device of devices) {
    const inForce = isInForce(device);
    for (const id of idsIn(groupsOf(device, groups))) {
      const use = uses.get(id) ?? { devices: 0, inForce: 0 };
      uses.set(id, use);
      use.devices += 1;
      if (inForce) use.inForce += 1;
    }
  }
  return uses;
}

/** A group that decides for a device, as pages show it. */
export interface GroupOn {
  readonly id: string;
  /** Undefined where the reader may not see it. */
  readonly group: SecurityGroup | undefined;
  readonly by: 'list' | 'label' | 'default';
}

/** The groups that decide for a device, in their order; guardrails stand above them and are not among these. */
export const groupsOn = (
  device: HasGroups,
  { groups, groupById }: Pick<Snapshot, 'groups' | 'groupById'>,
): readonly GroupOn[] => groupsOf(device, groups).groups.map(({ id, by }) => ({ id, by, group: groupById.get(id) }));

/** The groups and guardrails that a device would join and leave by a change of its list or labels, by name; the default group is none of them. */
export function groupMoves(
  groups: readonly SecurityGroup[],
  before: Device,
  after: Device,
): { readonly joins: readonly string[]; readonly leaves: readonly string[] } {
  const namesOn = (device: Device): readonly string[] => {
    const { groups: deciding, forbid, require } = groupsOf(device, groups);
    const own = deciding.flatMap(({ by, group }) => (by === 'default' || group === undefined ? [] : [group]));
    return [...own, ...forbid, ...require].map(({ name }) => name);
  };
  const [old, now] = [namesOn(before), namesOn(after)];
  return { joins: now.filter((name) => !old.includes(name)), leaves: old.filter((name) => !now.includes(name)) };
}
