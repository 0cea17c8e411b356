/** Owns the warnings to the owner who isolates a device: the fleet refuses its addresses also of others that have them (reference 1.5 (9)). */
import type { IsolationWarning } from '../../api/isolation.ts';
import { printAddress } from '../../policy/address.ts';
import type { DeviceId } from '../../policy/ids.ts';
import { policiesOf } from '../../policy/snapshot/device-policies.ts';
import { indexDevices } from '../../policy/snapshot/snapshot-fleet.ts';
import type { PolicySnapshot } from '../../policy/snapshot/snapshot.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import { inWords, naming } from './warnings.ts';

/** For each address of the device that others have, too. */
export async function sharedAddresses(
  snapshot: PolicySnapshot,
  id: DeviceId,
  slices: TimeSlices,
): Promise<readonly IsolationWarning[]> {
  await slices.run(indexDevices(snapshot.devices.below));
  const { fleet } = policiesOf(snapshot);
  return (snapshot.devices.get(id)?.identity.addresses ?? []).flatMap(({ family, value }): IsolationWarning[] => {
    const only = [{ first: value, last: value }];
    const { devices } = fleet.nameSet(family === 4 ? { v4: only, v6: [] } : { v4: [], v6: only });
    const others = devices.filter((device) => device.id !== id);
    if (others.length === 0) return [];
    const address = printAddress(family, value);
    const detail = `The other devices now refuse ${address} also as an address of ${inWords(others)}.`;
    return [{ code: 'shared_address', detail, address, ...naming(others) }];
  });
}
