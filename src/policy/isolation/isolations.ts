/**
 * Owns what the isolated devices of an organization mean for each device. For most devices their labels say it: it is worked out once for all that share
 * them.
 */
import type { DeviceIdentity } from '../fleet/identity.ts';
import { policyIsolation } from './isolation.ts';
import type { PolicyIsolation } from './policy-isolation.ts';

export class Isolations {
  readonly #isolated: readonly DeviceIdentity[];
  /** Isolated devices, and those that isolations name by their id. */
  readonly #named: ReadonlySet<string>;
  readonly #byLabels = new Map<string, PolicyIsolation | undefined>();

  constructor(isolated: readonly DeviceIdentity[]) {
    this.#isolated = isolated;
    const allowed = isolated.flatMap((device) => device.isolated?.allow ?? []);
    this.#named = new Set([
      ...isolated.map(({ id }) => id),
      ...allowed.flatMap((peer) => ('device_id' in peer ? [peer.device_id] : [])),
    ]);
  }

  of(device: DeviceIdentity): PolicyIsolation | undefined {
    if (this.#isolated.length === 0) return undefined;
    if (this.#named.has(device.id)) return policyIsolation(device, this.#isolated);
    const labels = device.labels.join(' ');
    if (!this.#byLabels.has(labels)) this.#byLabels.set(labels, policyIsolation(device, this.#isolated));
    return this.#byLabels.get(labels);
  }
}
