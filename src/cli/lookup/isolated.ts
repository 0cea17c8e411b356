/** Owns how isolated devices are told where the fleet is shown: they come first. */
import type { Device } from '../../api/device.ts';
import { shortTime } from '../terminal/time.ts';
import { deviceName } from './device.ts';

/** More devices than these nobody reads. */
const shownDevices = 10;

/** `Device web-7 is isolated until 2026-11-18T10:14:05Z: suspicious logins`, one line for each. */
export function isolatedLines(devices: readonly Device[]): readonly string[] {
  const lines = devices.flatMap((device) => {
    const { isolated } = device;
    if (isolated === undefined) return [];
    const end = isolated.until === undefined ? '' : ` until ${shortTime(isolated.until)}`;
    return [`Device ${deviceName(device)} is isolated${end}: ${isolated.reason}`];
  });
  const more = lines.length - shownDevices;
  return more <= 0 ? lines : [...lines.slice(0, shownDevices), `and ${more} more isolated: ringfence device list`];
}
