/** Owns which groups apply to a device, and which devices a group applies to. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { groupFromRecord } from '../../client/policy.ts';
import { effectivePolicy, isEnforced, type EffectivePolicy, type MissingGroups } from '../../policy/effective.ts';
import type { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { resolvePolicy, type Membership } from '../../policy/fleet/resolve.ts';
import { matchesAny } from '../../policy/fleet/selector.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { policyIsolation } from '../../policy/isolation/isolation.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import { deviceFor, stateFor, statesFor } from '../../policy/trial/trial.ts';
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

export type Known = Pick<Snapshot, 'groups' | 'groupById' | 'defaultGroup'>;

/** Groups that some device has by label, guardrails among them. */
export const byLabelIn = (groups: readonly SecurityGroup[]): readonly SecurityGroup[] =>
  groups.filter(({ applies_to = [], trial }) => applies_to.length + (trial?.before?.applies_to.length ?? 0) > 0);

/** Groups that decide whether the default group applies: those by label, and those that are watch only. */
export const decidingGroups = (groups: readonly SecurityGroup[]): readonly SecurityGroup[] =>
  groups.filter(
    (group) => !isEnforced(group) || group.trial?.before?.mode === 'observe' || byLabelIn([group]).length > 0,
  );

/** The policy of a device with the addresses that its peers have now. */
export function policyOf(
  device: Device,
  { groups, groupById, defaultGroup }: Known,
  fleet: Membership & Pick<Fleet, 'isolated'>,
  now: number = Date.now(),
): EffectivePolicy | MissingGroups {
  const policy = effectivePolicy({
    labels: device.labels ?? [],
    isolation: policyIsolation(deviceIdentity(device), fleet.isolated),
    byLabel: byLabelIn(groups).map(groupFromRecord),
    list: device.security_groups ?? [],
    trial: device.trial,
    find: (id) => {
      const group = groupById.get(id);
      return group === undefined ? undefined : groupFromRecord(group);
    },
    defaultGroup: defaultGroup === undefined ? undefined : groupFromRecord(defaultGroup),
  });
  return 'missing' in policy ? policy : resolvePolicy(policyAt(policy, now).policy, fleet);
}

/** Whether the device has the group: its list names it, it applies by label, or it is the default group and nothing else applies. */
export function applies(record: SecurityGroup, device: Device, groups: readonly SecurityGroup[]): boolean {
  const { security_groups: list = [], labels = [] } = deviceFor(device);
  const group = stateFor(record, labels);
  if (group === undefined) return false;
  if (group.is_default === true) return !hasOther(groups, list, labels);
  return list.includes(group.id) || matchesAny(group.applies_to, labels);
}

/** Whether a group of the list or by label takes the place of the default group. One that is watch only does not, and one that cannot be seen does. */
const hasOther = (groups: readonly SecurityGroup[], list: readonly string[], labels: readonly string[]): boolean => {
  const watched = new Set<string>();
  for (const group of statesFor(groups, labels)) {
    if (!isEnforced(group)) watched.add(group.id);
    else if (group.guardrail === undefined && matchesAny(group.applies_to, labels)) return true;
  }
  return list.some((id) => !watched.has(id));
};

/** `groups`: those that `decidingGroups` gives. */
export const devicesUnder = (
  group: SecurityGroup,
  devices: readonly Device[],
  groups: readonly SecurityGroup[],
): readonly Device[] => devices.filter((device) => applies(group, device, groups));

/** How many devices a group applies to, and on how many of them the policy is in force. */
export interface GroupUse {
  readonly devices: number;
  readonly inForce: number;
}

/** The use of each group, counted in one walk. */
export function countUses(
  { devices, groups, defaultGroup }: Pick<Snapshot, 'devices' | 'groups' | 'defaultGroup'>,
  isInForce: (device: Device) => boolean,
): ReadonlyMap<string, GroupUse> {
  const byLabel = byLabelIn(groups);
  const deciding = decidingGroups(groups);
  const uses = new Map<string, { devices: number; inForce: number }>();
  const add = (id: string, inForce: boolean): void => {
    const use = uses.get(id) ?? { devices: 0, inForce: 0 };
    uses.set(id, use);
    use.devices += 1;
    if (inForce) use.inForce += 1;
  };
  for (const device of devices) {
    const { security_groups: list = [], labels = [] } = deviceFor(device);
    const inForce = isInForce(device);
    const applying = statesFor(byLabel, labels).filter(({ applies_to }) => matchesAny(applies_to, labels));
    for (const id of new Set([...list, ...applying.map(({ id: one }) => one)])) add(id, inForce);
    if (!hasOther(deciding, list, labels) && defaultGroup !== undefined) add(defaultGroup.id, inForce);
  }
  return uses;
}

/** A group that a device has, as its list and its labels say. */
export interface GroupOn {
  readonly id: string;
  /** Undefined where the reader may not see it. */
  readonly group: SecurityGroup | undefined;
  readonly by: 'list' | 'label' | 'default';
}

/** Gives the groups that decide for a device, in their order; guardrails stand above them and are not among these. */
export function groupsOn({
  groups,
  groupById,
  defaultGroup,
}: Known): (device: Pick<Device, 'security_groups' | 'labels' | 'trial'>) => readonly GroupOn[] {
  const byLabel = byLabelIn(groups)
    .filter(({ guardrail }) => guardrail === undefined)
    .toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const otherwise: readonly GroupOn[] =
    defaultGroup === undefined ? [] : [{ id: defaultGroup.id, group: defaultGroup, by: 'default' }];
  return (device) => {
    const { security_groups: list = [], labels = [] } = deviceFor(device);
    const named = list
      .map((id): GroupOn => ({ id, group: groupById.get(id), by: 'list' }))
      .filter(({ group }) => group === undefined || isEnforced(stateFor(group, labels) ?? group));
    const further = statesFor(byLabel, labels)
      .filter((group) => isEnforced(group) && !list.includes(group.id) && matchesAny(group.applies_to, labels))
      .map((group): GroupOn => ({ id: group.id, group, by: 'label' }));
    return named.length + further.length === 0 ? otherwise : [...named, ...further];
  };
}

/** The groups and guardrails that a device would join and leave by a change of its list or labels, by name; the default group is none of them. */
export function groupMoves(
  known: Known,
  before: Device,
  after: Device,
): { readonly joins: readonly string[]; readonly leaves: readonly string[] } {
  const groupsOf = groupsOn(known);
  const guardrails = byLabelIn(known.groups).filter(({ guardrail }) => guardrail !== undefined);
  const namesOn = (device: Device): readonly string[] => [
    ...groupsOf(device).flatMap(({ by, group }) => (by === 'default' || group === undefined ? [] : [group.group_name])),
    ...statesFor(guardrails, device.labels ?? [])
      .filter((group) => isEnforced(group) && matchesAny(group.applies_to, device.labels ?? []))
      .map(({ group_name }) => group_name),
  ];
  const [old, now] = [namesOn(before), namesOn(after)];
  return { joins: now.filter((name) => !old.includes(name)), leaves: old.filter((name) => !now.includes(name)) };
}
