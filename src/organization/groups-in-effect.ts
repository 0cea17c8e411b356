/** Owns which groups of an organization are in effect on a device: its policy before the peers of rules are looked up, with what follows when trials end. */
import {
  effectivePolicy,
  listFor,
  selectGroups,
  type EffectivePolicy,
  type GroupSelection,
  type GroupSource,
  type MissingGroups,
  type SelectingDevice,
} from '../policy/effective.ts';
import type { GroupId } from '../policy/ids.ts';
import type { PolicyGroup } from '../policy/rule.ts';
import type { GroupState, Organization, OrganizationDevice, OrganizationGroup } from './organization.ts';

/** Numbers that distinguish groups, and the states of one group: a group never changes. */
const serials = new WeakMap<PolicyGroup, number>();
let lastSerial = 0;
function serialOf(group: PolicyGroup): number {
  let serial = serials.get(group);
  if (serial === undefined) serials.set(group, (serial = lastSerial += 1));
  return serial;
}

/** Equal for policies that are made of the same groups, which are the same objects; isolation and the end of trials aside. */
export const groupsKey = ({ source, groups, guardrails }: EffectivePolicy): string =>
  [
    source,
    ...[groups, guardrails?.forbid ?? [], guardrails?.require ?? []].map((some) => some.map(serialOf).join(' ')),
  ].join('|');

export const selecting = ({ list, trial, identity: { labels } }: OrganizationDevice): SelectingDevice => ({
  list,
  trial,
  labels,
});

const cohorts = new WeakMap<OrganizationDevice, string>();

/** Equal for devices with the same list and labels: they have the same groups. */
export function cohortOf(device: OrganizationDevice): string {
  let cohort = cohorts.get(device);
  if (cohort === undefined) {
    cohort = `${listFor(selecting(device)).join(' ')}|${device.identity.labels.join(' ')}`;
    cohorts.set(device, cohort);
  }
  return cohort;
}

/** What a device carries that has the group by label. */
interface Applying {
  readonly labels: readonly string[];
  readonly group: OrganizationGroup;
}

interface GroupsByLabel {
  readonly everywhere: readonly OrganizationGroup[];
  readonly labels: ReadonlyMap<string, readonly Applying[]>;
}

const policyOf = ({ group }: OrganizationGroup): PolicyGroup => group;
const asStored = ({ selectable }: OrganizationGroup): GroupState => selectable;

/** While changes are being tried, there are three answers to which groups a device has. */
export const trialCases = ['kept', 'ended', 'now'] as const;
export type TrialCase = (typeof trialCases)[number];

/** What of a group stays when its trial is kept. */
const kept = new WeakMap<OrganizationGroup, GroupState>();
function asKept(group: OrganizationGroup): GroupState {
  let state = kept.get(group);
  if (state === undefined) {
    const { trial: _trial, ...rest } = group.selectable;
    kept.set(group, (state = rest));
  }
  return state;
}

/** After the end of every trial. */
const atLast = Number.POSITIVE_INFINITY;

export class GroupsInEffect {
  readonly #organization: Organization;
  /** Groups that apply by label, by the first label of each of their selectors, without which no device matches it. */
  #byLabel: GroupsByLabel | undefined;

  constructor(organization: Organization) {
    this.#organization = organization;
  }

  of(device: OrganizationDevice): EffectivePolicy | MissingGroups {
    return effectivePolicy({ ...selecting(device), ...this.sourceFor(device.identity.labels, policyOf) });
  }

  /** Which groups the device has, and why. */
  selectionOn(device: OrganizationDevice): GroupSelection<PolicyGroup> {
    return selectGroups(selecting(device), this.sourceFor(device.identity.labels, policyOf));
  }

  /** Which groups the device has where every trial is kept (`kept`), has ended without that (`ended`), or as it is at this moment, where the scope of a trial decides. */
  selectionIn(holder: SelectingDevice, which: TrialCase): GroupSelection<GroupState> {
    const { list, trial, labels = [] } = holder;
    if (which === 'kept') return selectGroups({ list, labels }, this.sourceFor(labels, asKept));
    return selectGroups(
      { list, trial, labels },
      this.sourceFor(labels, asStored),
      which === 'ended' ? atLast : undefined,
    );
  }

  /** The groups among which those of a device with these labels are, each as `read` gives it. */
  sourceFor<Group>(labels: readonly string[], read: (group: OrganizationGroup) => Group): GroupSource<Group> {
    const { groups, defaultGroup } = this.#organization;
    const find = (id: GroupId): Group | undefined => {
      const group = groups.get(id);
      return group && read(group);
    };
    return {
      find,
      defaultGroup: defaultGroup === undefined ? undefined : find(defaultGroup),
      byLabel: this.#candidates(labels).map(read),
    };
  }

  /** Those of which a selector matches, now or before a trial. An organization may have so many selectors that looking at those of all groups takes seconds. */
  #candidates(labels: readonly string[]): readonly OrganizationGroup[] {
    const { everywhere, labels: byLabel } = (this.#byLabel ??= this.#indexByLabel());
    if (byLabel.size === 0) return everywhere;
    const carried = new Set(labels);
    const found = new Set(everywhere);
    for (const label of carried)
      for (const { labels: needed, group } of byLabel.get(label) ?? [])
        if (!found.has(group) && needed.every((one) => carried.has(one))) found.add(group);
    return [...found];
  }

  #indexByLabel(): GroupsByLabel {
    const everywhere = new Set<OrganizationGroup>();
    const labels = new Map<string, Applying[]>();
    for (const group of this.#organization.groups.values()) {
      const { appliesTo = [], trial } = group.selectable;
      for (const selector of [...appliesTo, ...(trial?.before?.appliesTo ?? [])]) {
        const needed = 'labels' in selector ? selector.labels : [];
        const [first] = needed;
        if (first === undefined) everywhere.add(group);
        else {
          const same = labels.get(first);
          if (same === undefined) labels.set(first, [{ labels: needed, group }]);
          else same.push({ labels: needed, group });
        }
      }
    }
    return { everywhere: [...everywhere], labels };
  }
}
