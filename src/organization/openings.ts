/** Owns which devices a change leaves with only the default group: no device becomes open by accident (reference 1.3 (5)). */
import type { SelectingDevice } from '../policy/effective.ts';
import type { DeviceId } from '../policy/ids.ts';
import { GroupsInEffect, selecting, trialCases, type TrialCase } from './groups-in-effect.ts';
import type { Organization, OrganizationDevice } from './organization.ts';

/** Whether a group, by list or by label, keeps devices from the default group. Devices with the same list, labels and trial are looked at once. */
class Closures {
  readonly #groups: GroupsInEffect;
  readonly #known = new Map<string, boolean>();

  constructor(organization: Organization) {
    this.#groups = new GroupsInEffect(organization);
  }

  isClosed(device: SelectingDevice, which: TrialCase): boolean {
    const { list, labels = [], trial } = device;
    const onTrial = trial === undefined ? '' : `${trial.id} ${trial.before?.security_groups.join(' ') ?? ''}`;
    const key = [which, list.join(' '), labels.join(' '), onTrial].join('|');
    let closed = this.#known.get(key);
    if (closed === undefined) {
      const { groups } = this.#groups.selectionIn(device, which);
      closed = groups.some(({ by, group }) => by !== 'default' && group !== undefined);
      this.#known.set(key, closed);
    }
    return closed;
  }
}

/** The places of those that no group keeps from the default group, or none would when trials have ended. */
export function* openAmong(
  organization: Organization,
  devices: readonly SelectingDevice[],
): Generator<void, readonly number[]> {
  const closures = new Closures(organization);
  const open: number[] = [];
  for (const [place, device] of devices.entries()) {
    yield;
    if (!closures.isClosed(device, 'kept') || !closures.isClosed(device, 'ended')) open.push(place);
  }
  return open;
}

export interface OpeningQuestion {
  /** Devices whose own list the change empties: that asks for it, and only groups by label count for them. */
  readonly emptied?: ReadonlySet<string> | undefined;
  /** Absent: each of the three. */
  readonly cases?: readonly TrialCase[] | undefined;
  /** Only these devices can be concerned; absent: all of them. */
  readonly among?: Iterable<DeviceId> | undefined;
}

const byId = (a: OrganizationDevice, b: OrganizationDevice): number => (a.id < b.id ? -1 : 1);

/** The devices that a group kept from the default group before, and that have nothing else after, as they were before, in the order of their ids. */
export function* openedDevices(
  before: Organization,
  after: Organization,
  { emptied, cases = trialCases, among }: OpeningQuestion = {},
): Generator<void, readonly OrganizationDevice[]> {
  const [earlier, later] = [new Closures(before), new Closures(after)];
  const opened: OrganizationDevice[] = [];
  for (const id of among ?? after.devices.keys()) {
    yield;
    const [old, now] = [before.devices.get(id), after.devices.get(id)];
    if (old === undefined || now === undefined) continue;
    const counted = emptied?.has(id) === true ? { list: [], labels: old.identity.labels } : selecting(old);
    if (cases.some((which) => !later.isClosed(selecting(now), which) && earlier.isClosed(counted, which)))
      opened.push(old);
  }
  return opened.toSorted(byId);
}
