/**
 * Owns the model of an organization: what it is at one moment, as far as it decides which groups count and which packets pass.
 *
 * A model never changes. `overlay` gives another one that differs from it, at the cost of the difference:
 *
 *     const after = overlay(before, [{ kind: 'device', id, device: undefined }]); // without this device
 *     const policy = policiesOf(after).of(id);
 */
import type { DeviceIdentity } from '../policy/fleet/identity.ts';
import type { SelectableGroup } from '../policy/effective.ts';
import type { DeviceId, GroupId } from '../policy/ids.ts';
import type { ListBefore, PolicyGroup, Trial } from '../policy/rule.ts';
import type { GroupRules } from './group-rules.ts';
import { LayeredMap } from './layered-map.ts';

/** A device, as far as it decides verdicts and as people call it. */
export interface OrganizationDevice {
  readonly id: DeviceId;
  /** Of the record, where it is written. */
  readonly revision?: number | undefined;
  readonly hostname: string;
  /** The device's own list of groups. */
  readonly list: readonly GroupId[];
  /** The change of the list that is being tried. */
  readonly trial?: Trial<ListBefore> | undefined;
  /** Its `isolated` throws `NotUnderstood` where the record has content that this version does not know. */
  readonly identity: DeviceIdentity;
}

/** What decides which devices have a group, in a state that it has or had before a trial, and its rules in that state. */
export interface GroupState extends SelectableGroup {
  readonly trial?: Trial<Pick<GroupState, 'name' | 'appliesTo' | 'mode' | 'rules'>> | undefined;
  readonly name: string;
  readonly rules: GroupRules;
}

/** A group of the organization or of a user, a guardrail, or the default group. */
export interface OrganizationGroup {
  readonly id: GroupId;
  /** Of the record, where it is written. */
  readonly revision?: number | undefined;
  readonly selectable: GroupState;
  readonly isDefault: boolean;
  /** Whose group it is; undefined where it is the organization's. */
  readonly user_id?: string | undefined;
  /** How many address ranges and peers its rules name. */
  readonly ranges: number;
  /** Characters of a record that is read again where its rules are asked for; absent of others, which are small. */
  readonly size?: number | undefined;
  /** Throws `NotUnderstood` where the record has content that this version does not know. */
  readonly group: PolicyGroup;
}

export interface Organization {
  /** The revision that it shows; what is laid over it has none yet. */
  readonly revision: number;
  /** The moment, in milliseconds since 1970: what depends on time is decided by it. */
  readonly at: number;
  readonly devices: LayeredMap<DeviceId, OrganizationDevice>;
  readonly groups: LayeredMap<GroupId, OrganizationGroup>;
  readonly defaultGroup: GroupId | undefined;
}

/** One record in its new state; undefined where it is deleted. */
export type OrganizationChange =
  | { readonly kind: 'device'; readonly id: DeviceId; readonly device: OrganizationDevice | undefined }
  | { readonly kind: 'group'; readonly id: GroupId; readonly group: OrganizationGroup | undefined };

/** What one revision changed. Revisions that change nothing of the model, such as a device's endpoint, have no step. */
export interface OrganizationStep {
  readonly revision: number;
  readonly change: OrganizationChange;
}

export const emptyOrganization: Organization = {
  revision: 0,
  at: 0,
  devices: new LayeredMap(),
  groups: new LayeredMap(),
  defaultGroup: undefined,
};

/** The organization with these changes; of changes to one record the last counts. `moment` moves the revision or the time. */
export function overlay(
  organization: Organization,
  changes: Iterable<OrganizationChange>,
  moment: Partial<Pick<Organization, 'revision' | 'at'>> = {},
): Organization {
  const devices = new Map<DeviceId, OrganizationDevice | undefined>();
  const groups = new Map<GroupId, OrganizationGroup | undefined>();
  let { defaultGroup } = organization;
  for (const change of changes) {
    if (change.kind === 'device') devices.set(change.id, change.device);
    else {
      groups.set(change.id, change.group);
      if (change.group?.isDefault === true) defaultGroup = change.id;
      else if (defaultGroup === change.id) defaultGroup = undefined;
    }
  }
  return {
    ...organization,
    ...moment,
    devices: organization.devices.with(devices),
    groups: organization.groups.with(groups),
    defaultGroup,
  };
}
