/** Owns how many address ranges a device has over all its groups, and which devices have a group (reference 8 (10)). */
import type { GroupId } from '../policy/ids.ts';
import { GroupsInEffect } from './groups-in-effect.ts';
import type { Organization, OrganizationDevice } from './organization.ts';

/**
 * The groups that count on a device: those that it has by list and by label, those that are watch only, since they may enforce at any moment, and those that
 * the end of a trial of its list brings back. The default group is none of them.
 */
export class HeldGroups {
  readonly #groups: GroupsInEffect;
  readonly #organization: Organization;
  /** By list and labels: devices with the same ones are looked at once. */
  readonly #held = new Map<string, ReadonlySet<GroupId>>();
  readonly #ranges = new WeakMap<ReadonlySet<GroupId>, number>();

  constructor(organization: Organization) {
    this.#organization = organization;
    this.#groups = new GroupsInEffect(organization);
  }

  /** Those of a device without list and labels. */
  get everywhere(): ReadonlySet<GroupId> {
    return this.#with([], []);
  }

  of({ list, trial, identity: { labels } }: OrganizationDevice): ReadonlySet<GroupId> {
    return this.#with([...list, ...(trial?.before?.security_groups ?? [])], labels);
  }

  #with(list: readonly GroupId[], labels: readonly string[]): ReadonlySet<GroupId> {
    const key = `${list.join(' ')}|${labels.join(' ')}`;
    let held = this.#held.get(key);
    if (held === undefined) {
      const { groups, forbid, require, watchOnly } = this.#groups.selectionIn({ list, labels }, 'kept');
      const having = groups.filter(({ by }) => by !== 'default');
      held = new Set([...having, ...forbid, ...require, ...watchOnly].map(({ id }) => id));
      this.#held.set(key, held);
    }
    return held;
  }

  rangesOf(device: OrganizationDevice): number {
    const held = this.of(device);
    let ranges = this.#ranges.get(held);
    if (ranges === undefined) {
      ranges = [...held].reduce((sum, id) => sum + (this.#organization.groups.get(id)?.ranges ?? 0), 0);
      this.#ranges.set(held, ranges);
    }
    return ranges;
  }
}

const byId = (a: OrganizationDevice, b: OrganizationDevice): number => (a.id < b.id ? -1 : 1);

/** Those of the devices that have the group whatever their lists say. */
export function* holdersByLabel(
  organization: Organization,
  group: GroupId,
  devices: readonly OrganizationDevice[],
): Generator<void, readonly OrganizationDevice[]> {
  const held = new HeldGroups(organization);
  const holders: OrganizationDevice[] = [];
  for (const device of devices) {
    yield;
    if (held.of({ ...device, list: [], trial: undefined }).has(group)) holders.push(device);
  }
  return holders;
}

function* devicesThat(
  organization: Organization,
  is: (device: OrganizationDevice) => boolean,
): Generator<void, readonly OrganizationDevice[]> {
  const found: OrganizationDevice[] = [];
  for (const device of organization.devices.values()) {
    yield;
    if (is(device)) found.push(device);
  }
  return found.toSorted(byId);
}

/** The devices that have the group, in the order of their ids. */
export function holdersOf(organization: Organization, group: GroupId): Generator<void, readonly OrganizationDevice[]> {
  const held = new HeldGroups(organization);
  return devicesThat(organization, (device) => held.of(device).has(group));
}

/** The devices with more ranges than that, in the order of their ids. */
export function devicesBeyond(
  organization: Organization,
  held: HeldGroups,
  ranges: number,
): Generator<void, readonly OrganizationDevice[]> {
  return devicesThat(organization, (device) => held.rangesOf(device) > ranges);
}
