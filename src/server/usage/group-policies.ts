/** Owns which devices have a group, each with its policy. */
import { groupsIn, type EffectivePolicy } from '../../policy/effective.ts';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { indexDevices } from '../../organization/fleet.ts';
import type { Organization } from '../../organization/organization.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';

/** The devices that have the group, or all devices, each with its policy. */
export async function policiesWith(
  snapshot: Organization,
  group: GroupId | undefined,
  slices: SlicedWork,
): Promise<ReadonlyMap<DeviceId, EffectivePolicy>> {
  await slices.run(indexDevices(snapshot.devices.below));
  const policies = policiesOf(snapshot);
  const found = new Map<DeviceId, EffectivePolicy>();
  await slices.each(snapshot.devices.values(), (device) => {
    const policy = policies.ofDevice(device);
    if ('missing' in policy) return;
    if (group === undefined || groupsIn(policy).some(({ id }) => id === group)) found.set(device.id, policy);
  });
  return found;
}
