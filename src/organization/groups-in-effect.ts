/** Owns which groups of an organization are in effect on a device: its policy before the peers of rules are looked up, with what follows when trials end. */
import {
  effectivePolicy,
  selectGroups,
  type EffectivePolicy,
  type GroupSelection,
  type GroupSource,
  type MissingGroups,
  type SelectingDevice,
} from '../policy/effective.ts';
import type { GroupId } from '../policy/ids.ts';
import type { PolicyGroup } from '../policy/rule.ts';
import type { Organization, OrganizationDevice } from './organization.ts';

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

export class GroupsInEffect {
  readonly #organization: Organization;
  /** Groups that apply by label, by the first label of their selectors, without which no device matches. */
  #byLabel:
    | { readonly everywhere: readonly PolicyGroup[]; readonly labels: ReadonlyMap<string, PolicyGroup[]> }
    | undefined;

  constructor(organization: Organization) {
    this.#organization = organization;
  }

  of(device: OrganizationDevice): EffectivePolicy | MissingGroups {
    return effectivePolicy({ ...selecting(device), ...this.#sourceFor(device) });
  }

  /** Which groups the device has, and why. */
  selectionOn(device: OrganizationDevice): GroupSelection<PolicyGroup> {
    return selectGroups(selecting(device), this.#sourceFor(device));
  }

  #sourceFor({ identity: { labels } }: OrganizationDevice): GroupSource<PolicyGroup> {
    const { groups, defaultGroup } = this.#organization;
    const find = (id: GroupId): PolicyGroup | undefined => groups.get(id)?.group;
    return {
      find,
      defaultGroup: defaultGroup === undefined ? undefined : find(defaultGroup),
      byLabel: this.#candidates(labels),
    };
  }

  #candidates(labels: readonly string[]): Iterable<PolicyGroup> {
    const { everywhere, labels: byLabel } = (this.#byLabel ??= this.#indexByLabel());
    if (byLabel.size === 0) return everywhere;
    return new Set([...everywhere, ...labels.flatMap((label) => byLabel.get(label) ?? [])]);
  }

  #indexByLabel() {
    const everywhere: PolicyGroup[] = [];
    const labels = new Map<string, PolicyGroup[]>();
    for (const { group } of this.#organization.groups.values()) {
      for (const selector of [...(group.appliesTo ?? []), ...(group.trial?.before?.appliesTo ?? [])]) {
        const first = 'labels' in selector ? selector.labels[0] : undefined;
        if (first === undefined) everywhere.push(group);
        else {
          const same = labels.get(first);
          if (same === undefined) labels.set(first, [group]);
          else same.push(group);
        }
      }
    }
    return { everywhere: [...new Set(everywhere)], labels };
  }
}
