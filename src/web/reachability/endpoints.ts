/** Owns the devices as ends of connections, with their policies. */
import { useMemo } from 'react';
import type { Device } from '../../api/device.ts';
import { ago } from '../components/time.tsx';
import { shortcomingOf } from '../model/device-state.ts';
import { addressOf, type Endpoint } from '../model/reachability.ts';

import { useFleet } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { usePast, useSnapshot, useStatuses } from '../state/organization.ts';
import { policiesOf } from './policies.ts';

export function useEndpoints(devices: readonly Device[]): readonly Endpoint[] {
  const { groups } = useSnapshot();
  const fleet = useFleet();
  const statuses = useStatuses();
  const past = usePast();
  const at = past?.at;
  const judged = useMemo(() => {
    const policies = policiesOf(devices, groups, fleet, at);
    return devices.map((device, index): Endpoint => ({
      device,
      policy: policies[index] ?? { missing: 'default' },
      address: addressOf(device),
    }));
  }, [devices, groups, fleet, at]);
  return useMemo(() => {
    if (at !== undefined) return judged;
    const now = Date.now();
    return judged.map((endpoint) => ({
      ...endpoint,
      shortcoming: shortcomingOf(deviceName(endpoint.device), statuses.get(endpoint.device.id), (time) =>
        ago(Date.parse(time), now),
      ),
    }));
  }, [judged, statuses, at]);
}
