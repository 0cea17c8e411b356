/** Owns the question whether a change is in force: what a device should have in force, beside what its agent reported. */
import type { Device, DeviceStatus } from '../../api/device.ts';
import { matchesAny } from '../../policy/fleet/selector.ts';
import type { Snapshot } from '../state/live.ts';
import { byLabelIn } from './device-policy.ts';

/** An agent reports more often than this; silence beyond it is worth a word. */
const silentAfter = 10 * 60_000;

type Known = Pick<Snapshot, 'groups' | 'groupById' | 'defaultGroup'>;

/**
 * The revision from which on a device follows its policy: the newest of the device itself and of the groups that apply to it. Later
 * revisions of the organization are of no concern to it.
 */
export function neededRevision(device: Device, { groups, groupById, defaultGroup }: Known): number {
  const { security_groups: list = [], labels = [] } = device;
  const byLabel = byLabelIn(groups).filter(({ applies_to }) => matchesAny(applies_to, labels));
  const isDefault = list.length === 0 && byLabel.every(({ guardrail }) => guardrail !== undefined);
  const applying = [...byLabel, ...list.map((id) => groupById.get(id)), ...(isDefault ? [defaultGroup] : [])];
  return Math.max(device.revision, ...applying.map((group) => group?.revision ?? 0));
}

/**
 * - `unseen`: no agent has ever reported;
 * - `silent`: it has not reported for long, whatever it said last;
 * - `failed`: the old rules stay in force, because the new ones could not be applied;
 * - `starting`: it runs and has not applied anything yet;
 * - `behind`: its rules are older than what should be in force;
 * - `applied`: what should be in force is.
 */
export type DeviceState = 'unseen' | 'silent' | 'failed' | 'starting' | 'behind' | 'applied';

export function deviceStateOf(
  device: Device,
  status: DeviceStatus | undefined,
  snapshot: Known,
  now: number,
): DeviceState {
  if (status === undefined) return 'unseen';
  if (now - Date.parse(status.reported_at) > silentAfter) return 'silent';
  const { state, revision } = status.status;
  if (state !== 'applied') return state;
  return revision !== undefined && revision < neededRevision(device, snapshot) ? 'behind' : 'applied';
}

/** How many of these devices stand where. */
export function countDeviceStates(
  devices: readonly Device[],
  statuses: ReadonlyMap<string, DeviceStatus>,
  snapshot: Known,
  now: number,
): Readonly<Record<DeviceState, number>> {
  const counts: Record<DeviceState, number> = { unseen: 0, silent: 0, failed: 0, starting: 0, behind: 0, applied: 0 };
  for (const device of devices) counts[deviceStateOf(device, statuses.get(device.id), snapshot, now)] += 1;
  return counts;
}
