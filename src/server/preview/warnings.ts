/** Owns the warnings about a planned change, besides what devices gain and lose. */
import type { SimulationWarning } from '../../api/change/simulation.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { voidRules } from '../../policy/guardrail/void-rules.ts';
import type { GroupId } from '../../policy/ids.ts';
import { compareNames } from '../../policy/names/compare-names.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { policiesOf, type DevicePolicies } from '../../organization/device-policies.ts';
import type { Organization, OrganizationDevice } from '../../organization/organization.ts';
import { placeholderId, type PlannedChange } from './planned-change.ts';

/** A warning names at most this many devices, and says how many more there are. */
const mostNamed = 100;
const mostWarnings = 100;
/** Steps that comparing the rules of all written groups with guardrails may take. */
const mostSteps = 400_000;

type Steps = Generator<void, readonly SimulationWarning[], undefined>;

interface Moments {
  readonly before: Organization;
  readonly after: Organization;
}

export const inWords = (devices: readonly OrganizationDevice[]): string => {
  const names = devices.map(({ id, hostname }) => (hostname === '' ? id : hostname));
  const named = names.toSorted(compareNames).slice(0, 5);
  const more = devices.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
};

export const naming = (
  devices: readonly OrganizationDevice[],
): Pick<SimulationWarning, 'devices' | 'more_devices'> => ({
  devices: devices.slice(0, mostNamed).map(({ id }) => id),
  ...(devices.length > mostNamed && { more_devices: devices.length - mostNamed }),
});

const hasOwn = (policies: DevicePolicies, device: OrganizationDevice | undefined): boolean => {
  const policy = device && policies.ofDevice(device);
  return policy !== undefined && !('missing' in policy) && policy.source === 'list';
};

/** Devices that have groups now and would have the default group. */
function* opened({ before, after }: Moments): Steps {
  const [old, now] = [policiesOf(before), policiesOf(after)];
  const devices: OrganizationDevice[] = [];
  for (const device of after.devices.values()) {
    yield;
    if (!hasOwn(now, device) && hasOwn(old, before.devices.get(device.id))) devices.push(device);
  }
  if (devices.length === 0) return [];
  const detail = `This would leave ${inWords(devices)} without a group, and the default group would apply.`;
  return [{ pointer: '', code: 'would_open', detail, ...naming(devices) }];
}

/** Deleted groups that devices have. */
function* inUse({ before }: Moments, { deletes }: PlannedChange): Steps {
  const having = new Map<GroupId, OrganizationDevice[]>();
  for (const { kind, id } of deletes) {
    const group = kind === 'security-groups' && before.defaultGroup !== id ? before.groups.get(id)?.group : undefined;
    if (group !== undefined && group.guardrail === undefined) having.set(group.id, []);
  }
  if (having.size === 0) return [];
  const policies = policiesOf(before);
  for (const device of before.devices.values()) {
    yield;
    const policy = policies.ofDevice(device);
    const inEffect = 'missing' in policy ? [] : policy.groups.map(({ id }) => id);
    for (const id of new Set([...device.list, ...inEffect])) having.get(id)?.push(device);
  }
  return deletes.flatMap(({ id }, index): SimulationWarning[] => {
    const devices = having.get(id as GroupId) ?? [];
    if (devices.length === 0) return [];
    const { name } = before.groups.get(id as GroupId)?.group ?? { name: '' };
    const detail = `The group ${name} is applied to ${inWords(devices)}, and would be taken off.`;
    return [{ pointer: `/delete/${index}`, code: 'group_in_use', detail, ...naming(devices) }];
  });
}

/** Rules of written groups that guardrails make void on a device that has the group. */
function* voided({ after }: Moments, { groups }: PlannedChange): Steps {
  const written = new Map(groups.map(({ id }, index) => [id ?? placeholderId(index), index]));
  if (written.size === 0) return [];
  const policies = policiesOf(after);
  const found = new Map<string, SimulationWarning>();
  /** Of the devices with the same groups the first by id. */
  const firsts = new Map<
    readonly PolicyGroup[],
    { readonly device: OrganizationDevice; readonly policy: EffectivePolicy }
  >();
  for (const device of after.devices.values()) {
    yield;
    const policy = policies.ofDevice(device);
    if ('missing' in policy || policy.guardrails === undefined) continue;
    const first = firsts.get(policy.groups);
    if (first === undefined || device.id < first.device.id) firsts.set(policy.groups, { device, policy });
  }
  let steps = mostSteps;
  for (const { device, policy } of [...firsts.values()].toSorted((a, b) => (a.device.id < b.device.id ? -1 : 1))) {
    yield;
    const { forbid = [] } = policy.guardrails ?? {};
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

/** The caller can do other work at each pause. */
export function* warningsOf(moments: Moments, change: PlannedChange): Steps {
  const all = [...(yield* opened(moments)), ...(yield* inUse(moments, change)), ...(yield* voided(moments, change))];
  return all.slice(0, mostWarnings);
}
