/** Owns what pages say of a trial: its name, the time that is left, how it ended, and who may decide it. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Trial } from '../../api/trial/trials.ts';
import type { TrialRecords } from '../../policy/trial/right.ts';
import { selectorChip } from '../model/far-end.ts';

interface Known {
  readonly groupById: ReadonlyMap<string, SecurityGroup>;
  readonly deviceById: ReadonlyMap<string, Device>;
}

type Tried = Pick<Trial, 'id' | 'security_groups' | 'devices'>;

/** The trials of these records, as one text that changes when a trial begins, ends or is widened. */
export function trialSignature(records: Iterable<Pick<SecurityGroup | Device, 'trial'>>): string {
  const known = new Set<string>();
  for (const { trial } of records) {
    if (trial !== undefined) known.add(`${trial.id} ${(trial.scope ?? []).map(selectorChip).join(',')}`);
  }
  return [...known].toSorted().join('\n');
}

/** The trial without the records that the page sees and that were taken out of it since it was read. */
export function withoutTakenOut<T extends Tried>(trial: T, { groupById, deviceById }: Known): T {
  const isTried = (record: SecurityGroup | Device | undefined): boolean =>
    record === undefined || record.trial?.id === trial.id;
  return {
    ...trial,
    security_groups: trial.security_groups.filter((id) => isTried(groupById.get(id))),
    devices: trial.devices.filter((id) => isTried(deviceById.get(id))),
  };
}

/** The records of a trial as the rights to it need them. A record that the page does not see belongs to somebody else. */
export const trialRecords = ({ security_groups, devices }: Tried, { groupById, deviceById }: Known): TrialRecords => ({
  groups: security_groups.map((id) => {
    const group = groupById.get(id);
    return { id, user_id: group === undefined ? '' : (group.user_id ?? null), isNew: group?.trial?.before === null };
  }),
  devices: devices.map((id) => ({ id, user_id: deviceById.get(id)?.user_id ?? '' })),
});

/** `web servers`, or `the groups of web-1`. */
export function recordName(id: string, { groupById, deviceById }: Known): string {
  const group = groupById.get(id);
  return group === undefined ? `the groups of ${deviceById.get(id)?.hostname || 'a device'}` : group.group_name;
}

/** Whether the stream says that the trial has ended: records that the page sees are on trial no more. */
export function hasEnded({ id, security_groups, devices }: Tried, { groupById, deviceById }: Known): boolean {
  const seen = [
    ...security_groups.map((one) => groupById.get(one)),
    ...devices.map((one) => deviceById.get(one)),
  ].filter((record) => record !== undefined);
  return seen.length > 0 && seen.every(({ trial }) => trial?.id !== id);
}

const mostNamed = 2;

/** `web servers`, `the groups of web-1`, `web servers, databases and 3 more`. */
export function trialName({ security_groups, devices }: Tried, { groupById, deviceById }: Known): string {
  const names = [
    ...security_groups.map((id) => groupById.get(id)?.group_name ?? 'a group'),
    ...devices.map((id) => `the groups of ${deviceById.get(id)?.hostname || 'a device'}`),
  ];
  const more = names.length - mostNamed;
  return `${names.slice(0, mostNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

const two = (value: number): string => String(value).padStart(2, '0');

/** `1:42`, or `1:02:03` from an hour on; never less than nothing. */
export function timeLeft(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1_000));
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** `devices with label:canary`, or `all devices`. */
export const scopeWords = (scope: Trial['scope']): string =>
  scope === undefined ? 'all its devices' : `devices with ${scope.map(selectorChip).join(' or ')}`;

/** What became of a trial, for a message. */
export function endWords({ state }: Pick<Trial, 'state'>, name: string, by: string | undefined): string | undefined {
  const whom = by === undefined ? '' : ` by ${by}`;
  switch (state) {
    case 'confirmed':
      return `The trial of ${name} has ended: the change was kept${whom}.`;
    case 'reverted':
      return `The trial of ${name} has ended: the change was taken back${whom}.`;
    case 'expired':
      return `The trial of ${name} has ended: its time was over, and the change was taken back.`;
    case 'pending':
      return undefined;
    default:
      return state satisfies never;
  }
}
