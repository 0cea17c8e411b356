/** Owns the choice of groups that an agent holds in memory: those that concern its device, and others while they are small. */
import type { DeviceIdentity } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { mayApplyByLabel } from '../../policy/effective.ts';
import { NotUnderstood } from '../../policy/fleet/not-understood.ts';
import { countsOf } from './budget.ts';
import { readApplication } from './read-group.ts';

/** What a device says about its groups. */
export type GroupsOfDevice = Pick<DeviceIdentity, 'security_groups' | 'labels' | 'trial'>;

/** Whether the group may be part of this device's policy, by what device and group say now. */
function mayConcern(group: SecurityGroup, device: GroupsOfDevice | undefined): boolean {
  const lists = [...(device?.security_groups ?? []), ...(device?.trial?.before.security_groups ?? [])];
  if (group.is_default === true || lists.includes(group.id)) return true;
  const application = readApplication(group);
  return application instanceof NotUnderstood || mayApplyByLabel(application, device?.labels ?? []);
}

/** What a group takes in memory, roughly, in ranges. */
export function sizeOf(group: SecurityGroup): number {
  const { rules, ranges } = countsOf(group);
  return 1 + rules + ranges;
}

/** Ranges that groups which do not concern the device may take together: some ten megabytes. */
const mostRanges = 50_000;

/**
 * Groups of others are held as long as there is room, because one that is put on this device later is then there at once.
 * Beyond that they are dropped, so that an agent's memory does not grow with its organization.
 */
export class GroupSelection {
  readonly #most: number;
  readonly #sizes = new Map<string, number>();
  #total = 0;

  constructor(most = mostRanges) {
    this.#most = most;
  }

  /** Whether to hold this state of the group. */
  take(group: SecurityGroup, device: GroupsOfDevice | undefined): boolean {
    this.forget(group.id);
    if (mayConcern(group, device)) return true;
    const size = sizeOf(group);
    if (this.#total + size > this.#most) return false;
    this.#sizes.set(group.id, size);
    this.#total += size;
    return true;
  }

  /** The group is gone. */
  forget(id: string): void {
    this.#total -= this.#sizes.get(id) ?? 0;
    this.#sizes.delete(id);
  }
}
