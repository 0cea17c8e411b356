/** Owns who may do what with a trial, and which of its records go together when some are taken out of it (reference 4.15). */

/** A record of a trial. `user_id`: the user whose device or group it is; null: a group of the organization. */
export interface TriedRecord {
  readonly id: string;
  readonly user_id: string | null;
}

/** Of a device: its list on trial. */
export interface TriedDevice extends TriedRecord {
  readonly security_groups?: readonly string[] | undefined;
}

/** Of a group: whether the trial created it, so that it goes with its end. */
export interface TriedGroup extends TriedRecord {
  readonly isNew: boolean;
}

/** The records that are still on trial. */
export interface TrialRecords {
  readonly groups: readonly TriedGroup[];
  readonly devices: readonly TriedDevice[];
}

export interface TrialCaller {
  readonly user_id: string;
  readonly isOwner: boolean;
}

const mayWriteGroup = ({ user_id }: TriedRecord, caller: TrialCaller): boolean =>
  user_id === null ? caller.isOwner : user_id === caller.user_id;
const mayWriteDevice = ({ user_id }: TriedRecord, caller: TrialCaller): boolean =>
  caller.isOwner || user_id === caller.user_id;

/** To confirm or widen a trial needs the right to every record. With no record left: an owner, or the user who started it. */
export function mayKeep({ groups, devices, by }: TrialRecords & { readonly by: string }, caller: TrialCaller): boolean {
  if (groups.length + devices.length === 0) return caller.isOwner || by === caller.user_id;
  return groups.every((one) => mayWriteGroup(one, caller)) && devices.every((one) => mayWriteDevice(one, caller));
}

/** An owner may revert any trial of its organization. */
export const mayRevert = (trial: TrialRecords & { readonly by: string }, caller: TrialCaller): boolean =>
  caller.isOwner || mayKeep(trial, caller);

/** The records that the caller may take out: those that it may write; an owner may take out all. */
export function mayTakeOut({ groups, devices }: TrialRecords, caller: TrialCaller): readonly string[] {
  const groupsOf = caller.isOwner ? groups : groups.filter((one) => mayWriteGroup(one, caller));
  return [...groupsOf, ...devices.filter((one) => mayWriteDevice(one, caller))].map(({ id }) => id);
}

/** A group that the trial created goes when it is taken out: the lists of the same trial that name it go back with it. */
export function takenOutWith({ groups, devices }: TrialRecords, ids: ReadonlySet<string>): ReadonlySet<string> {
  const deleted = new Set(groups.filter(({ id, isNew }) => isNew && ids.has(id)).map(({ id }) => id));
  const along = devices.filter(({ security_groups = [] }) => security_groups.some((group) => deleted.has(group)));
  return new Set([...ids, ...along.map(({ id }) => id)]);
}
