/** Owns the devices as ends of connections, with their policies. Devices with the same policy share one object. */
import { useMemo } from 'react';
import type { Device } from '../../api/device.ts';
import { ago } from '../components/time.tsx';
import { policyOf } from '../model/device-policy.ts';
import { shortcomingOf } from '../model/device-state.ts';
import { addressOf, type Endpoint } from '../model/reachability.ts';
import { useFleet } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { usePast, useSnapshot, useStatuses } from '../state/organization.ts';

export function useEndpoints(devices: readonly Device[]): readonly Endpoint[] {
  const { groups, groupById, defaultGroup } = useSnapshot();
  const fleet = useFleet();
  const statuses = useStatuses();
  const past = usePast();
  const at = past?.at;
  const judged = useMemo(() => {
    const byList = new Map<string, Endpoint['policy']>();
    const byGroups = new Map<string, Endpoint['policy']>();
    return devices.map((device): Endpoint => {
      const key = `${(device.security_groups ?? []).join()} ${(device.labels ?? []).join()}`;
      let policy = byList.get(key);
      if (policy === undefined) {
        const made = policyOf(device, { groups, groupById, defaultGroup }, fleet, at);
        const { forbid = [], require = [] } = ('guardrails' in made && made.guardrails) || {};
        const ids = 'missing' in made ? key : [...made.groups, ...forbid, ...require].map(({ id }) => id).join();
        policy = byGroups.get(ids) ?? made;
        byGroups.set(ids, policy);
        byList.set(key, policy);
      }
      return { device, policy, address: addressOf(device) };
    });
  }, [devices, groups, groupById, defaultGroup, fleet, at]);
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
