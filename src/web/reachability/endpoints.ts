/** Owns the devices as ends of connections, with their policies. */
import { useMemo } from 'react';
import type { Device } from '../../api/device.ts';
import { policiesOn } from '../../organization/of-records.ts';
import { ago } from '../components/time.tsx';
import { shortcomingOf } from '../model/device-state.ts';
import { addressOf, type Endpoint } from '../model/reachability.ts';
import { useModel } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { usePast, useStatuses } from '../state/organization.ts';

export function useEndpoints(devices: readonly Device[]): readonly Endpoint[] {
  const model = useModel();
  const statuses = useStatuses();
  const past = usePast();
  const at = past?.at;
  const judged = useMemo(() => {
    const policies = policiesOn(
      model,
      devices.map(({ id }) => id),
      at ?? Date.now(),
    );
    return devices.map((device, index): Endpoint => ({
      device,
      policy: policies[index] ?? { missing: 'default' },
      address: addressOf(device),
    }));
  }, [devices, model, at]);
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
