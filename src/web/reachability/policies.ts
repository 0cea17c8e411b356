/** Owns the policies of many devices: those with the same policy share one object, which is asked once for all of them. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { EffectivePolicy, MissingGroups } from '../../policy/effective.ts';
import type { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { isolationKey } from '../../policy/isolation/isolation.ts';
import { Isolations } from '../../policy/isolation/isolations.ts';
import { isTried } from '../../policy/trial/trial.ts';
import { policyOf } from '../model/device-policy.ts';

/** In the order of the devices. */
export function policiesOf(
  devices: readonly Device[],
  groups: readonly SecurityGroup[],
  fleet: Fleet,
  at?: number,
): readonly (EffectivePolicy | MissingGroups)[] {
  const isolations = new Isolations([...fleet.isolated]);
  const trials = groups.flatMap(({ trial }) => trial ?? []);
  const byDevice = new Map<string, EffectivePolicy | MissingGroups>();
  const byGroups = new Map<string, EffectivePolicy | MissingGroups>();
  return devices.map((device) => {
    const { security_groups: list = [], labels = [], trial } = device;
    const isolation = isolations.of(deviceIdentity(device));
    /** What decides beside the groups themselves: isolations, the device's own trial, and which groups it tries. */
    const beside = [
      isolation === undefined ? '' : isolationKey(isolation),
      trial === undefined ? '' : JSON.stringify(trial),
      trials.map((one) => Number(isTried(one, labels))).join(''),
    ].join(' | ');
    const own = `${list.join()} | ${labels.join()} | ${beside}`;
    let policy = byDevice.get(own);
    if (policy === undefined) {
      const made = policyOf(device, groups, fleet, at);
      if ('missing' in made) policy = made;
      else {
        const { forbid = [], require = [] } = made.guardrails ?? {};
        const ids = [...made.groups, ...forbid, ...require].map(({ id }) => id);
        const key = `${made.source} ${ids.join()} | ${beside}`;
        policy = byGroups.get(key) ?? made;
        byGroups.set(key, policy);
      }
      byDevice.set(own, policy);
    }
    return policy;
  });
}
