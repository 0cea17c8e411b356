/** Owns what explanations say about enforcement: why packets may not meet the policy's verdict. */
import type { Device, DeviceStatus } from '../../api/device.ts';
import { shortcoming } from '../../api/enforcement/in-force.ts';
import { deviceName } from '../lookup/device.ts';
import { agoWords } from '../terminal/time.ts';

/** Undefined where the device is proven to enforce its policy. */
export function doubtAbout(device: Device, statuses: ReadonlyMap<string, DeviceStatus>): string | undefined {
  const { in_force = 'never_seen', last_seen_at } = statuses.get(device.id) ?? {};
  return shortcoming(
    deviceName(device),
    in_force,
    last_seen_at === undefined ? undefined : agoWords(last_seen_at, Date.now()),
  );
}

/** `allowed`, or `allowed by policy, but ci-1 was last seen 14 min ago and lacks this change`. */
export const verdictWords = (verdict: string, doubts: readonly string[]): string =>
  doubts.length === 0 ? verdict : `${verdict} by policy, but ${doubts.join(', and ')}`;
