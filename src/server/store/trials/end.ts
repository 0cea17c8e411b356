/** Owns the records of a trial inside a transaction: which are still on it, and the writing of what becomes of them. */
import { refuseNewer } from '../../../organization/decide/decision.ts';
import { ownerOf } from '../../../organization/decide/group.ts';
import type { TriedDevice, TriedGroup, TriedRecords, TrialOutcome } from '../../../organization/decide/trial.ts';
import type { Actor } from '../data/actor.ts';
import { leaveView } from '../devices/group-views.ts';
import { removeGroup } from '../groups/groups.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';
import type { TrialRow } from '../write/trial.ts';

/** Each in its current state in this transaction. */
export async function triedRecords({ records }: Locked, trial: TrialRow): Promise<TriedRecords> {
  await records.load({ groups: trial.groups, devices: trial.devices });
  const isTried = (record: { readonly trial?: { readonly id: string } | undefined } | undefined): boolean =>
    record?.trial?.id === trial.id;
  const groups = trial.groups.toSorted().map((id) => records.group(id)?.record);
  const devices = trial.devices.toSorted().map((id) => records.device(id)?.record);
  return { groups: groups.filter(isTried) as TriedGroup[], devices: devices.filter(isTried) as TriedDevice[] };
}

/** Writes what becomes of the records. Gives back the newest revision that was taken. A record of a later version is left to a server of that version: reference 4.5 (6). */
export async function writeOutcome(
  context: Context,
  locked: Locked,
  by: Actor,
  { groups, devices, goes, left }: TrialOutcome,
): Promise<number> {
  const { records } = locked;
  for (const { id } of groups) refuseNewer(records, 'group', records.group(id)?.record ?? {});
  for (const { id } of devices) refuseNewer(records, 'device', records.device(id)?.record ?? {});
  const made = { by: by.user_id, at: now(context) };
  const written = [
    // Devices come first, so that no reader meets a device that names a group which is gone.
    ...devices.map((device) =>
      records.putDevice({ ...device, updated_at: made.at }, made, { isKept: true, isIdentity: true }),
    ),
    ...groups.map((group) => records.putGroup({ ...group, updated_at: made.at }, made)),
  ];
  const revisions = written.map(({ revision }) => revision);
  await leaveView(locked, left, made);
  for (const group of goes) {
    const options = { detach: true, onTrial: true };
    const { last } = await removeGroup(context, locked, { by, owner: ownerOf(group), id: group.id, options });
    revisions.push(last.revision);
  }
  return Math.max(0, ...revisions);
}
