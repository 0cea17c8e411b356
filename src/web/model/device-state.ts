/**
 * Owns how pages interpret a device's status: its state, counts of states, and why packets may not meet the policy's
 * verdict.
 */
import type { Device, DeviceStatus } from '../../api/device.ts';
import { inForceWords, mostUrgentFirst, shortcoming, type InForce } from '../../api/enforcement/in-force.ts';

/** What the server says; before it has answered, and of a device that is newer than its answer, nothing is known. */
export const stateOf = (status: DeviceStatus | undefined): InForce => status?.in_force ?? 'never_seen';

/** How many of these devices stand where. */
export function countDeviceStates(
  devices: readonly Pick<Device, 'id'>[],
  statuses: ReadonlyMap<string, DeviceStatus>,
): Readonly<Record<InForce, number>> {
  const counts = Object.fromEntries(inForceWords.map((word) => [word, 0])) as Record<InForce, number>;
  for (const { id } of devices) counts[stateOf(statuses.get(id))] += 1;
  return counts;
}

/** Their rules are not the ones that their policy asks for, whatever revision they name. */
const isWrong: ReadonlySet<InForce> = new Set(['failed', 'reverted', 'not_understood']);

/** The devices that are not known to have the last change of the group, the most urgent first. */
export function lackingChange<One extends Pick<Device, 'id'>>(
  { revision }: { readonly revision: number },
  devices: readonly One[],
  statuses: ReadonlyMap<string, DeviceStatus>,
): readonly One[] {
  const urgency = (device: One): number => mostUrgentFirst.indexOf(stateOf(statuses.get(device.id)));
  return devices
    .filter(({ id }) => {
      const status = statuses.get(id);
      const state = stateOf(status);
      return state !== 'yes' && (isWrong.has(state) || (status?.status?.revision ?? 0) < revision);
    })
    .toSorted((a, b) => urgency(a) - urgency(b));
}

/** Why packets of this device may meet other rules than the pages show; undefined where they do not. */
export const shortcomingOf = (
  name: string,
  status: DeviceStatus | undefined,
  ago: (time: string) => string,
): string | undefined =>
  shortcoming(name, stateOf(status), status?.last_seen_at === undefined ? undefined : ago(status.last_seen_at));
