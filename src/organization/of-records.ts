/** Owns organizations as people read them: made of the records that one reader sees, for pages and commands. */
import { idsIn, type EffectivePolicy, type GroupSelection, type SelectingDevice } from '../policy/effective.ts';
import { NotUnderstood } from '../policy/fleet/not-understood.ts';
import { matchesAny } from '../policy/fleet/selector.ts';
import type { DeviceId, GroupId } from '../policy/ids.ts';
import type { ListBefore, Selector, Trial } from '../policy/rule.ts';
import { policyAt } from '../policy/time/policy-at.ts';
import { policiesOf, type DevicePolicy } from './device-policies.ts';
import { GroupsInEffect } from './groups-in-effect.ts';
import type { LayeredMap } from './layered-map.ts';
import {
  emptyOrganization,
  overlay,
  type GroupState,
  type Organization,
  type OrganizationDevice,
} from './organization.ts';
import { deviceChange, groupChange, type DevicePolicyFields } from './read-records.ts';

type DeviceRecords = readonly DevicePolicyFields[];
type GroupRecords = readonly object[];

/** Lists of records never change, so each is read once. */
function remembered<Records extends object, T>(read: (records: Records) => T): (records: Records) => T {
  const known = new WeakMap<Records, { readonly value: T }>();
  return (records) => {
    const found = known.get(records) ?? { value: read(records) };
    known.set(records, found);
    return found.value;
  };
}

const devicesOfRecords = remembered(
  (devices: DeviceRecords): LayeredMap<DeviceId, OrganizationDevice> =>
    overlay(emptyOrganization, devices.map(deviceChange)).devices,
);
const withGroups = remembered((groups: GroupRecords) => {
  const organization = overlay(emptyOrganization, groups.map(groupChange));
  const withDevices = remembered((devices: DeviceRecords) => ({ ...organization, devices: devicesOfRecords(devices) }));
  return { inEffect: new GroupsInEffect(organization), withDevices };
});

/** All that the reader knows of an organization. */
export const organizationOf = (devices: DeviceRecords, groups: GroupRecords): Organization =>
  withGroups(groups).withDevices(devices);

/** What a record says about its groups. */
export interface HasGroups {
  readonly security_groups?: readonly GroupId[] | undefined;
  readonly labels?: readonly string[] | undefined;
  readonly trial?: Trial<ListBefore> | undefined;
}

const selecting = ({ security_groups: list = [], labels = [], trial }: HasGroups): SelectingDevice => ({
  list,
  labels,
  trial,
});

/** Which of these groups the device has, and why. `groups`: all that the reader knows of the organization. */
export const groupsOf = (device: HasGroups, groups: GroupRecords): GroupSelection<GroupState> =>
  withGroups(groups).inEffect.selectionIn(selecting(device), 'now');

/** The devices that have the group, those among them on which it decides nothing. */
export const devicesOf = <Device extends HasGroups>(
  group: string,
  devices: readonly Device[],
  groups: GroupRecords,
): readonly Device[] => devices.filter((device) => idsIn(groupsOf(device, groups)).some((id) => id === group));

/** The devices that one of the selectors names. */
export const devicesNamed = <Device extends Pick<HasGroups, 'labels'>>(
  selectors: readonly Selector[],
  devices: readonly Device[],
): readonly Device[] => devices.filter(({ labels = [] }) => matchesAny(selectors, labels));

/** The policy of a device at a moment, in milliseconds since 1970; `missing` names nothing where a record is of a later version. */
export function policyOn(organization: Organization, id: string, at: number): DevicePolicy {
  const [policy = { missing: 'default' } as const] = policiesOn(organization, [id], at);
  return policy;
}

/** The policies of devices in their order. Devices with the same policy share one object. */
export function policiesOn(organization: Organization, ids: readonly string[], at: number): readonly DevicePolicy[] {
  const policies = policiesOf(organization);
  const now = new Map<EffectivePolicy, EffectivePolicy>();
  return ids.map((id) => {
    const policy = understood(() => policies.of(id as DeviceId));
    if (policy === undefined || 'missing' in policy) return policy ?? { missing: [] };
    const known = now.get(policy) ?? policyAt(policy, at).policy;
    now.set(policy, known);
    return known;
  });
}

function understood<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof NotUnderstood) return undefined;
    throw error;
  }
}
