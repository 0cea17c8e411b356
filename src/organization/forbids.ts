/** Owns which forbids stand together on the devices that have a group. */
import type { GroupId } from '../policy/ids.ts';
import type { PolicyGroup } from '../policy/rule.ts';
import { HeldGroups } from './held-groups.ts';
import type { Organization } from './organization.ts';

export interface StandingForbids {
  readonly guardrails: readonly PolicyGroup[];
  /** On how many devices that have the group; 0: on all devices, where none has it. */
  readonly devices: number;
}

/** An answer has at most so many. */
const mostSets = 8;

/** Each set of them once, the most common first; where no device has the group, those that stand on all devices. */
export function* forbidsOn(organization: Organization, group: GroupId): Generator<void, readonly StandingForbids[]> {
  const { devices, groups } = organization;
  const forbids = new Set<GroupId>();
  for (const { id, selectable } of groups.values())
    if (selectable.guardrail === 'forbid' && selectable.mode !== 'observe') forbids.add(id);
  if (forbids.size === 0) return [];
  const held = new HeldGroups(organization);
  const counts = new Map<ReadonlySet<GroupId>, number>();
  for (const device of devices.values()) {
    yield;
    const having = held.of(device);
    if (having.has(group)) counts.set(having, (counts.get(having) ?? 0) + 1);
  }
  if (counts.size === 0) counts.set(held.everywhere, 0);
  const sets = new Map<string, { readonly ids: readonly GroupId[]; devices: number }>();
  for (const [having, count] of counts) {
    const ids = [...having].filter((id) => forbids.has(id)).toSorted();
    const key = ids.join(' ');
    const set = sets.get(key);
    if (set !== undefined) set.devices += count;
    else if (ids.length > 0) sets.set(key, { ids, devices: count });
  }
  return [...sets.values()]
    .toSorted((a, b) => b.devices - a.devices)
    .slice(0, mostSets)
    .map(({ ids, devices: count }) => ({
      guardrails: ids.flatMap((id) => groups.get(id)?.group ?? []),
      devices: count,
    }));
}
