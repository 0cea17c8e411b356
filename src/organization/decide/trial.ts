/** Owns how a trial ends or widens: who may, what is refused, and what becomes of each record (reference 4.15). */
import type { Selector } from '../../policy/rule.ts';
import {
  mayKeep,
  mayRevert,
  mayTakeOut,
  takenOutWith,
  type TrialCaller,
  type TrialRecords,
} from '../../policy/trial/right.ts';
import { isWithin } from '../../policy/trial/trial.ts';
import type { DeviceContent, GroupBefore, GroupContent, RecordTrial } from './records.ts';
import { refuse } from './refusal.ts';

/** On trial. */
export type TriedGroup = GroupContent & { readonly trial: RecordTrial<GroupBefore> };
export type TriedDevice = DeviceContent & { readonly trial: NonNullable<DeviceContent['trial']> };

/** The records of a trial that still exist, each in its current state. */
export interface TriedRecords {
  readonly groups: readonly TriedGroup[];
  readonly devices: readonly TriedDevice[];
}

/** What becomes of the records of a trial. */
export interface TrialOutcome {
  readonly groups: readonly GroupContent[];
  readonly devices: readonly DeviceContent[];
  /** Groups that the trial made, and that go with it. */
  readonly goes: readonly TriedGroup[];
  /** Groups that lists hold no more. */
  readonly left: readonly string[];
}

const ended = <T extends { readonly trial: unknown }>({ trial: _trial, ...record }: T): Omit<T, 'trial'> => record;

/** Everybody has the change. */
export const keptTrial = ({ groups, devices }: TriedRecords): TrialOutcome => ({
  groups: groups.map(ended),
  devices: devices.map(ended),
  goes: [],
  left: devices.flatMap(({ trial }) => trial.before.security_groups),
});

/** Nothing that was true before the trial is judged again: a revert always works. Devices that rules name may be gone; then they match nothing. */
export const takenBack = ({ groups, devices }: TriedRecords): TrialOutcome => ({
  groups: groups.flatMap(({ trial: { before }, ...group }) =>
    before === null ? [] : [{ ...group, mode: undefined, ...before } as GroupContent],
  ),
  devices: devices.map(({ trial, ...device }) => ({ ...device, ...trial.before })),
  goes: groups.filter(({ trial }) => trial.before === null),
  left: devices.flatMap(({ security_groups = [] }) => security_groups),
});

/** Another scope on all records; undefined: all devices. */
export function widened({ groups, devices }: TriedRecords, scope: readonly Selector[] | undefined): TrialOutcome {
  const wider = <T extends RecordTrial<object>>({ scope: _old, before, ...rest }: T): T =>
    ({ ...rest, ...(scope && { scope }), before }) as T;
  return {
    groups: groups.map((group) => ({ ...group, trial: wider(group.trial) })),
    devices: devices.map((device) => ({ ...device, trial: wider(device.trial) })),
    goes: [],
    left: [],
  };
}

/** The scope as it is kept: one that includes all devices is none. Refuses where devices that try the change would no longer. */
export function widerScope(
  old: readonly Selector[] | undefined,
  given: readonly Selector[] | undefined,
): readonly Selector[] | undefined {
  const wider = isWithin(undefined, given) ? undefined : given;
  return isWithin(old, wider) ? wider : refuse({ code: 'not_wider' });
}

/** What the rules of rights need to know of the records. */
const recordsOf = ({ groups, devices }: TriedRecords): TrialRecords => ({
  groups: groups.map(({ id, user_id = null, trial: { before } }) => ({ id, user_id, isNew: before === null })),
  devices: devices.map((device) => ({ ...device, security_groups: device.security_groups ?? [] })),
});

export interface Ender extends TrialCaller {
  readonly isServer: boolean;
}

/** Whether the caller does this only as an owner, who thereby accepts an ownership that is pending. Refuses who may not. */
function holdRight(caller: Ender, may: (caller: TrialCaller) => boolean): boolean {
  if (caller.isServer) return false;
  if (!may(caller)) refuse({ code: 'forbidden' });
  return caller.isOwner && !may({ ...caller, isOwner: false });
}

/** `how`: what is to become of the whole trial, which `by` started. */
export const holdTrial = (caller: Ender, by: string, tried: TriedRecords, how: 'keep' | 'revert'): boolean =>
  holdRight(caller, (one) => (how === 'keep' ? mayKeep : mayRevert)({ ...recordsOf(tried), by }, one));

/** The same for some records that are to be taken out. */
export function holdTakeOut(caller: Ender, tried: TriedRecords, asked: readonly string[]): boolean {
  const known = new Set<string>([...tried.groups, ...tried.devices].map(({ id }) => id));
  const indexes = asked.flatMap((id, index) => (known.has(id) ? [] : [index]));
  if (indexes.length > 0) refuse({ code: 'not_on_trial', indexes });
  return holdRight(caller, (one) => {
    const own = new Set(mayTakeOut(recordsOf(tried), one));
    return asked.every((id) => own.has(id));
  });
}

/** Refuses to keep or widen a trial whose time is over, in milliseconds since 1970. */
export function holdTime({ ends_at }: { readonly ends_at: string }, now: number): void {
  if (now >= Date.parse(ends_at)) refuse({ code: 'trial_over', state: 'expired' });
}

/** The records that leave the trial, with the lists that name a group which goes by that; and those that stay. */
export function parted(
  tried: TriedRecords,
  asked: Iterable<string>,
): { readonly out: TriedRecords; readonly stay: TriedRecords; readonly ids: ReadonlySet<string> } {
  const ids = takenOutWith(recordsOf(tried), new Set(asked));
  const part = (isOut: boolean): TriedRecords => ({
    groups: tried.groups.filter(({ id }) => ids.has(id) === isOut),
    devices: tried.devices.filter(({ id }) => ids.has(id) === isOut),
  });
  return { out: part(true), stay: part(false), ids };
}
