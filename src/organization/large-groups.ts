/** Owns which large groups of an organization some device has or may have, and the reading of their rules one by one: each may take as long as a turn should. */
import { mayApplyByLabel } from '../policy/effective.ts';
import { NotUnderstood } from '../policy/fleet/not-understood.ts';
import type { GroupId } from '../policy/ids.ts';
import type { PolicyGroup } from '../policy/rule.ts';
import type { Organization, OrganizationGroup } from './organization.ts';

/** Devices that are looked at between two pauses. */
const lookedAtOnce = 500;

export function* largeGroups({ groups, devices, defaultGroup }: Organization): Generator<void, OrganizationGroup[]> {
  const large = [...groups.values()].filter(({ size }) => size !== undefined);
  if (large.length === 0) return [];
  const held = new Set<GroupId>();
  let looked = 0;
  for (const { list, trial } of devices.values()) {
    for (const id of [...list, ...(trial?.before?.security_groups ?? [])]) held.add(id);
    if ((looked += 1) % lookedAtOnce === 0) yield;
  }
  return large.filter(({ id, selectable }) => id === defaultGroup || held.has(id) || mayApplyByLabel(selectable));
}

/** What it gives keeps the rules in memory. */
export function* readLarge(groups: readonly OrganizationGroup[]): Generator<void, PolicyGroup[]> {
  const read: PolicyGroup[] = [];
  for (const group of groups) {
    try {
      read.push(group.group);
    } catch (error) {
      // Whoever asks for it meets that too.
      if (!(error instanceof NotUnderstood)) throw error;
    }
    yield;
  }
  return read;
}
