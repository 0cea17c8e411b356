/** Owns the end of a trial inside a transaction: it keeps the change or restores the earlier state. Both take new revisions. */
import type { Actor } from '../data/actor.ts';
import type { GroupBefore, RecordTrial } from '../data/records.ts';
import { leaveView } from '../devices/group-views.ts';
import { removeGroup } from '../groups/groups.ts';
import type { DeviceContent } from '../write/records/device-text.ts';
import type { GroupContent } from '../write/records/group-text.ts';
import { ownerOf } from '../write/records/groups.ts';
import { refuseNewer } from '../write/records/newer.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';
import type * as sql from './statements.ts';

/** On trial. */
type TriedGroup = GroupContent & { readonly trial: RecordTrial<GroupBefore> };
type TriedDevice = DeviceContent & { readonly trial: NonNullable<DeviceContent['trial']> };

/** The records of a trial that still exist, each in its current state in this transaction. */
export interface TriedRecords {
  readonly groups: readonly TriedGroup[];
  readonly devices: readonly TriedDevice[];
}

export async function triedRecords({ records }: Locked, trial: sql.TrialRow): Promise<TriedRecords> {
  await records.load({ groups: trial.groups, devices: trial.devices });
  const isTried = (record: { readonly trial?: { readonly id: string } | undefined } | undefined): boolean =>
    record?.trial?.id === trial.id;
  const groups = trial.groups.toSorted().map((id) => records.group(id)?.record);
  const devices = trial.devices.toSorted().map((id) => records.device(id)?.record);
  return { groups: groups.filter(isTried) as TriedGroup[], devices: devices.filter(isTried) as TriedDevice[] };
}

interface Rewritten {
  readonly groups: readonly GroupContent[];
  readonly devices: readonly DeviceContent[];
}

/** Gives back the newest revision that was taken. A record of a later version is left to a server of that version: reference 4.5 (6). */
function rewrite(context: Context, { records }: Locked, by: Actor, { groups, devices }: Rewritten): number {
  for (const { id } of groups) refuseNewer('group', records.group(id)?.record ?? {});
  for (const { id } of devices) refuseNewer('device', records.device(id)?.record ?? {});
  const made = { by: by.user_id, at: now(context) };
  const written = [
    // Devices come first, so that no reader meets a device that names a group which is gone.
    ...devices.map((device) =>
      records.putDevice({ ...device, updated_at: made.at }, made, { isKept: true, isIdentity: true }),
    ),
    ...groups.map((group) => records.putGroup({ ...group, updated_at: made.at }, made)),
  ];
  return Math.max(0, ...written.map(({ revision }) => revision));
}

/** Users' groups of these lists, which the devices hold no more. */
const leave = (context: Context, locked: Locked, by: Actor, lists: readonly (readonly string[])[]): Promise<void> =>
  leaveView(locked, lists.flat(), { by: by.user_id, at: now(context) });

/** Another scope on all records. */
export function rewriteScope(
  context: Context,
  locked: Locked,
  by: Actor,
  { groups, devices }: TriedRecords,
  scope: RecordTrial<never>['scope'],
): number {
  const widened = <T extends RecordTrial<object>>({ scope: _old, before, ...rest }: T): T =>
    ({ ...rest, ...(scope && { scope }), before }) as T;
  return rewrite(context, locked, by, {
    groups: groups.map((group) => ({ ...group, trial: widened(group.trial) })),
    devices: devices.map((device) => ({ ...device, trial: widened(device.trial) })),
  });
}

const ended = <T extends { readonly trial: unknown }>({ trial: _trial, ...record }: T): Omit<T, 'trial'> => record;

export async function keepChange(
  context: Context,
  locked: Locked,
  by: Actor,
  { groups, devices }: TriedRecords,
): Promise<number> {
  const revision = rewrite(context, locked, by, { groups: groups.map(ended), devices: devices.map(ended) });
  await leave(
    context,
    locked,
    by,
    devices.map(({ trial }) => trial.before.security_groups),
  );
  return revision;
}

/** Nothing that was true before the trial is judged again: a revert always works. Devices that rules name may be gone; then they match nothing. */
export async function takeBack(
  context: Context,
  locked: Locked,
  by: Actor,
  { groups, devices }: TriedRecords,
): Promise<number> {
  const revision = rewrite(context, locked, by, {
    groups: groups.flatMap(({ trial: { before }, ...group }) =>
      before === null ? [] : [{ ...group, mode: undefined, ...before } as GroupContent],
    ),
    devices: devices.map(({ trial, ...device }) => ({ ...device, ...trial.before })),
  });
  await leave(
    context,
    locked,
    by,
    devices.map(({ security_groups = [] }) => security_groups),
  );
  const revisions = [revision];
  for (const { trial, ...group } of groups) {
    if (trial.before !== null) continue;
    const options = { detach: true, onTrial: true };
    const { last } = await removeGroup(context, locked, { by, owner: ownerOf(group), id: group.id, options });
    revisions.push(last.revision);
  }
  return Math.max(...revisions);
}
