/** Owns what is judged of the organization as a write leaves it: which devices open, which have too many ranges, whom rules name. Work that grows with the organization pauses. */
import { parseDeviceId, parseGroupId, type EnrollmentKeyId, type GroupId } from '../../policy/ids.ts';
import type { GuardrailKind } from '../../policy/rule.ts';
import { devicesBeyond, HeldGroups, holdersByLabel, holdersOf } from '../held-groups.ts';
import { openAmong, openedDevices, type OpeningQuestion } from '../openings.ts';
import type { Organization, OrganizationDevice } from '../organization.ts';
import { refuse } from './refusal.ts';

/** An answer names at most so many devices that open, and says how many more there are (reference 8 (7)). */
const mostOpened = 100;
const mostOverfull = 1000;

const nameOf = ({ id, hostname }: OrganizationDevice) => ({ id, hostname });

/** Refuses where devices open between these two: no device becomes open by accident (reference 1.3 (5)). */
export function* refuseOpened(
  before: Organization,
  after: Organization,
  question?: OpeningQuestion,
): Generator<void, void> {
  const opened = yield* openedDevices(before, after, question);
  if (opened.length === 0) return;
  const devices = opened.slice(0, mostOpened).map(nameOf);
  refuse({ code: 'would_open', devices, more: opened.length - devices.length });
}

/** Of these devices, which have too many ranges over all their groups, none may have the group. */
export function refuseFull(
  full: readonly OrganizationDevice[],
  held: HeldGroups,
  { group, limit }: { readonly group: string; readonly limit: number },
): void {
  const devices = full.filter((device) => held.of(device).has(parseGroupId(group)));
  if (devices.length > 0)
    refuse({ code: 'too_many_device_ranges', limit, devices: devices.slice(0, mostOverfull).map(nameOf) });
}

/** Refuses where devices that have the group have too many ranges over all their groups. */
export function* refuseOverfull(organization: Organization, group: string, limit: number): Generator<void, void> {
  const held = new HeldGroups(organization);
  refuseFull(yield* devicesBeyond(organization, held, limit), held, { group, limit });
}

/** Refuses where the device has too many ranges, by list and by label together. */
export function refuseOverfullDevice(organization: Organization, id: string, allowed: number): void {
  const device = organization.devices.get(parseDeviceId(id));
  const ranges = device === undefined ? 0 : new HeldGroups(organization).rangesOf(device);
  if (ranges > allowed)
    refuse({ code: 'group_list_invalid', problems: [{ index: -1, code: 'too_many_ranges', allowed, ranges }] });
}

/** A device that is named for the first time must be there; one that the group named before may be gone since. */
export function refuseUnknown(
  { devices }: Pick<Organization, 'devices'>,
  named: ReadonlySet<string>,
  before: ReadonlySet<string>,
): void {
  const asked = [...named].filter((id) => !before.has(id)).map(parseDeviceId);
  const unknown = asked.filter((id) => !devices.has(id));
  if (unknown.length > 0) refuse({ code: 'device_unknown', devices: unknown });
}

/** An enrollment key that holds the group. */
export interface HoldingKey {
  readonly id: EnrollmentKeyId;
  readonly name: string;
  readonly security_groups: readonly GroupId[];
  readonly labels: readonly string[];
}

const keyNameOf = ({ id, name }: HoldingKey) => ({ id, name });

/** Judged after the write that made a group watch only: devices that come with a key are no more open than those that are here. `keys`: those that hold the group. */
export function* refuseOpenKeys(organization: Organization, keys: readonly HoldingKey[]): Generator<void, void> {
  const asked = keys.map(({ security_groups: list, labels }) => ({ list, labels }));
  const open = new Set(yield* openAmong(organization, asked));
  if (open.size > 0)
    refuse({
      code: 'group_in_use',
      by: { list: false, label: false },
      devices: [],
      enrollment_keys: keys.filter((_, index) => open.has(index)).map(keyNameOf),
    });
}

export interface Deletion {
  readonly id: GroupId;
  readonly guardrail?: GuardrailKind | undefined;
  /** Those that hold the group. */
  readonly keys: readonly HoldingKey[];
  /** Take it off the devices, and end the keys. */
  readonly detach: boolean;
  /** Devices that have it by label do not keep it: the caller judges which of them open. */
  readonly leaveByLabel: boolean;
}

/** The devices that list a group which is to go, also those that get it back by the end of a trial. Refuses where the group is in use. */
export function* holdersToLeave(
  organization: Organization,
  { id, guardrail, keys, detach, leaveByLabel }: Deletion,
): Generator<void, readonly OrganizationDevice[]> {
  const having = yield* holdersOf(organization, id);
  const holders = having.filter(
    ({ list, trial }) => list.includes(id) || trial?.before?.security_groups.includes(id) === true,
  );
  for (const { trial } of holders) if (trial !== undefined) refuse({ code: 'trial_pending', trial: trial.id });
  // A guardrail may go at any time: no device falls back to the default group by that.
  const byLabel = guardrail === undefined ? yield* holdersByLabel(organization, id, having) : [];
  const judgedByLabel = leaveByLabel ? [] : byLabel;
  if (holders.length + keys.length + judgedByLabel.length > 0 && !detach) {
    const devices = new Map([...holders, ...byLabel].map((device) => [device.id, device]));
    refuse({
      code: 'group_in_use',
      by: { list: holders.length > 0, label: judgedByLabel.length > 0 },
      devices: [...devices.values()].map(nameOf),
      enrollment_keys: keys.map(keyNameOf),
    });
  }
  return holders;
}
