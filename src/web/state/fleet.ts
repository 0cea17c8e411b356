/** Owns lookups over the whole fleet for pages: names of devices, the owner of an address, the labels in use. */
import { useMemo } from 'react';
import type { Device } from '../../api/device.ts';
import { printAddress } from '../../policy/address.ts';
import { devicesNamed, organizationOf } from '../../organization/of-records.ts';
import type { Organization } from '../../organization/organization.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { deviceNames, type DeviceNames } from '../model/far-end.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import type { Selector } from '../../policy/rule.ts';
import { deviceName } from './live.ts';
import { useSnapshot } from './organization.ts';

/** One computation for all that show the same devices. */
function remembered<T>(make: (devices: readonly Device[]) => T): (devices: readonly Device[]) => T {
  const known = new WeakMap<readonly Device[], { readonly value: T }>();
  return (devices) => {
    const found = known.get(devices) ?? { value: make(devices) };
    known.set(devices, found);
    return found.value;
  };
}

const namesOf = remembered(deviceNames);

const ownersOf = remembered((devices): ReadonlyMap<string, string> => {
  const owners = new Map<string, string>();
  for (const device of devices) {
    for (const { family, value } of deviceIdentity(device).addresses) {
      const address = printAddress(family, value);
      const other = owners.get(address);
      owners.set(address, other === undefined ? deviceName(device) : `${other}, ${deviceName(device)}`);
    }
  }
  return owners;
});

export function useDeviceNames(): DeviceNames {
  const { devices } = useSnapshot();
  return useMemo(() => namesOf(devices), [devices]);
}

/** The organization as the reader sees it. */
export function useModel(): Organization {
  const { devices, groups } = useSnapshot();
  return useMemo(() => organizationOf(devices, groups), [devices, groups]);
}

/** The names of the devices that have each address, for addresses that stand in rules. */
export function useAddressOwners(): ReadonlyMap<string, string> {
  const { devices } = useSnapshot();
  return useMemo(() => ownersOf(devices), [devices]);
}

/** How many devices each selector means, counted once for a state of the fleet. */
const countsOf = remembered((devices) => {
  const known = new Map<string, number>();
  return (selector: Selector): number => {
    const key = peerKey(selector);
    const count = known.get(key) ?? devicesNamed([selector], devices).length;
    known.set(key, count);
    return count;
  };
});

export function usePeerCounts(): (selector: Selector) => number {
  const { devices } = useSnapshot();
  return countsOf(devices);
}
