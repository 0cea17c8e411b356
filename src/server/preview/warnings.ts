/** Owns the warnings about a planned change, besides what devices gain and lose. */
import type { SimulationWarning } from '../../api/change/simulation.ts';
import { voidRules } from '../../policy/guardrail/void-rules.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { policiesOf, type DevicePolicies } from '../../policy/snapshot/device-policies.ts';
import type { PolicySnapshot, SnapshotDevice } from '../../policy/snapshot/snapshot.ts';
import { placeholderId, type PlannedChange } from './planned-change.ts';

/** A warning names at most this many devices, and says how many more there are. */
const mostNamed = 100;
const mostWarnings = 100;
/** Steps that comparing the rules of all written groups with guardrails may take. */
const mostSteps = 400_000;

interface Moments {
  readonly before: PolicySnapshot;
  readonly after: PolicySnapshot;
}

export const inWords = (devices: readonly SnapshotDevice[]): string => {
  const named = devices.slice(0, 5).map(({ id, hostname }) => (hostname === '' ? id : hostname));
  const more = devices.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
};

export const naming = (devices: readonly SnapshotDevice[]): Pick<SimulationWarning, 'devices' | 'more_devices'> => ({
  devices: devices.slice(0, mostNamed).map(({ id }) => id),
  ...(devices.length > mostNamed && { more_devices: devices.length - mostNamed }),
});

const hasOwn = (policies: DevicePolicies, device: SnapshotDevice | undefined): boolean => {
  const policy = device && policies.ofDevice(device);
  return policy !== undefined && !('missing' in policy) && policy.source === 'list';
};

/** Devices that have groups now and would have the default group. */
function opened({ before, after }: Moments): readonly SimulationWarning[] {
  const [old, now] = [policiesOf(before), policiesOf(after)];
  const devices = [...after.devices.values()].filter(
    (device) => !hasOwn(now, device) && hasOwn(old, before.devices.get(device.id)),
  );
  if (devices.length === 0) return [];
  const detail = `This would leave ${inWords(devices)} without a group, and the default group would apply.`;
  return [{ pointer: '', code: 'would_open', detail, ...naming(devices) }];
}

/** Deleted groups that devices have. */
function inUse({ before }: Moments, { deletes }: PlannedChange): readonly SimulationWarning[] {
  const policies = policiesOf(before);
  return deletes.flatMap(({ kind, id }, index): SimulationWarning[] => {
    if (kind !== 'security-groups' || before.defaultGroup === id) return [];
    const group = before.groups.get(id)?.group;
    if (group === undefined || group.guardrail !== undefined) return [];
    const devices = [...before.devices.values()].filter((device) => {
      const policy = policies.ofDevice(device);
      return device.list.includes(id) || (!('missing' in policy) && policy.groups.some((one) => one.id === id));
    });
    if (devices.length === 0) return [];
    const detail = `The group ${group.name} is applied to ${inWords(devices)}, and would be taken off.`;
    return [{ pointer: `/delete/${index}`, code: 'group_in_use', detail, ...naming(devices) }];
  });
}

/** Rules of written groups that guardrails make void on a device that has the group. */
function voided({ after }: Moments, { groups }: PlannedChange): readonly SimulationWarning[] {
  const written = new Map(groups.map(({ id }, index) => [id ?? placeholderId(index), index]));
  if (written.size === 0) return [];
  const policies = policiesOf(after);
  const found = new Map<string, SimulationWarning>();
  const seen = new Set<readonly PolicyGroup[]>();
  let steps = mostSteps;
  for (const device of after.devices.values()) {
    const policy = policies.ofDevice(device);
    if ('missing' in policy || policy.guardrails === undefined || seen.has(policy.groups)) continue;
    seen.add(policy.groups);
    const { forbid } = policy.guardrails;
    const some = policy.groups.filter(({ id }) => written.has(id));
    if (forbid.length === 0 || some.length === 0 || steps <= 0 || found.size >= mostWarnings) continue;
    const weight = [...some, ...forbid].reduce((sum, group) => sum + group.inbound.length + group.outbound.length, 0);
    steps -= weight;
    const guardrail_ids = forbid.map(({ id }) => id);
    for (const { group, direction, index } of voidRules({ ...policy, groups: some }, steps).rules) {
      const pointer = `/security_groups/${written.get(group.id) ?? 0}/${direction}_rules/${index}`;
      if (found.has(pointer)) continue;
      const names = forbid.map(({ name }) => name).join(', ');
      const detail = `On ${inWords([device])}, this rule has no effect: ${names} forbids everything that it admits.`;
      found.set(pointer, { pointer, code: 'void_by_guardrail', detail, guardrail_ids });
    }
  }
  return [...found.values()];
}

export const warningsOf = (moments: Moments, change: PlannedChange): readonly SimulationWarning[] =>
  [...opened(moments), ...inUse(moments, change), ...voided(moments, change)].slice(0, mostWarnings);
