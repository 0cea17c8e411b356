/** Owns what explanations say about enforcement: why packets may not meet the policy's verdict. */
import type { Device, DeviceStatus } from '../../api/device.ts';
import { shortcoming } from '../../api/enforcement/in-force.ts';
import { deviceName } from '../lookup/device.ts';
import { agoWords } from '../terminal/time.ts';

/** Why packets may meet other rules than these. Empty where every device is proven to enforce its policy; undefined for the past, of which nothing is known. */
export type Doubts = readonly string[] | undefined;

export function doubtAbout(device: Device, statuses: ReadonlyMap<string, DeviceStatus>): readonly string[] {
  const { in_force = 'never_seen', last_seen_at } = statuses.get(device.id) ?? {};
  const ago = last_seen_at === undefined ? undefined : agoWords(last_seen_at, Date.now());
  const doubt = shortcoming(deviceName(device), in_force, ago);
  return doubt === undefined ? [] : [doubt];
}

/** Those of all sides, each once: both ends may be one device. */
export const allDoubts = (sides: readonly { readonly doubts: Doubts }[]): Doubts =>
  sides.some(({ doubts }) => doubts === undefined)
    ? undefined
    : [...new Set(sides.flatMap(({ doubts = [] }) => doubts))];

/** For programs. The past has none. */
export const enforcementData = (doubts: Doubts): { readonly in_force?: boolean; readonly detail?: string } =>
  doubts === undefined
    ? {}
    : { in_force: doubts.length === 0, ...(doubts.length > 0 && { detail: doubts.join(', and ') }) };

/** `allowed`, or `allowed by policy, but ci-1 was last seen 14 min ago and lacks this change`. */
export const verdictWords = (verdict: string, doubts: Doubts = []): string =>
  doubts.length === 0 ? verdict : `${verdict} by policy, but ${doubts.join(', and ')}`;
