/**
 * Owns one change to several devices: one after the other, with a line for each, and a summary of what was done before
 * a failure.
 */
import type { ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import type { Device } from '../../api/device.ts';
import { RingfenceError } from '../../client/error.ts';
import { allDevices, deviceName, pickDevices, pickLabelled, type Devices } from '../lookup/device.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { sayUndo, writeChanges } from '../lookup/write-changes.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { readLabels } from '../terminal/label.ts';
import { printable } from '../../policy/names/printable.ts';

/** How a list is changed: replaced, or by some of its entries. */
export type ListChange = 'set' | 'add' | 'remove';

function listAfter(way: ListChange, now: readonly string[], named: readonly string[]): readonly string[] {
  switch (way) {
    case 'set':
      return named;
    case 'add':
      return [...now, ...named.filter((entry) => !now.includes(entry))];
    case 'remove':
      return now.filter((entry) => !named.includes(entry));
    default:
      return way satisfies never;
  }
}

export interface LabelFilter {
  readonly label?: readonly string[];
}

/** The devices that a command names, and the words that follow: with `--label`, the first word is one of these. */
async function readTarget(
  session: Session,
  args: readonly string[],
  { label = [] }: LabelFilter,
): Promise<{ readonly picked: Devices; readonly words: readonly string[] }> {
  const wanted = readLabels(label);
  const [text, ...rest] = args;
  if (wanted.length > 0) return { picked: pickLabelled(await allDevices(session), wanted), words: args };
  if (text === undefined) throw usageError('no device given: name a device, or use --label');
  return { picked: pickDevices(await allDevices(session), text), words: rest };
}

/** Taking and adding nothing is a slip of the pen; setting to nothing is not. */
function requireWords(way: ListChange, words: readonly string[], what: string): void {
  if (way !== 'set' && words.length === 0) throw usageError(`no ${what} given to ${way}`);
}

/** A list that devices have. */
export interface DeviceList {
  readonly field: 'security_groups' | 'labels';
  /** What an entry is called. */
  readonly what: string;
  /** Entries as they are stored, from words. */
  readonly read: (words: readonly string[]) => Promise<readonly string[]>;
  readonly isSorted: boolean;
  /** What a person reads of a device after the change. */
  readonly line: (device: Device) => string;
}

/** Adds entries to a list of every device that is named, takes some out, or sets it. */
export async function changeList(
  session: Session,
  way: ListChange,
  { args, filter }: { readonly args: readonly string[]; readonly filter: LabelFilter },
  { field, what, read, isSorted, line }: DeviceList,
): Promise<void> {
  const { picked, words } = await readTarget(session, args, filter);
  requireWords(way, words, what);
  const named = await read(words);
  const listOf = ({ [field]: now = [] }: Device): readonly string[] => {
    const list = listAfter(way, now, named);
    return isSorted ? list.toSorted() : list;
  };
  const isDone = (device: Device): boolean => listOf(device).join() === (device[field] ?? []).join();
  const change = (devices: readonly Device[]): ChangeSetBody => ({
    devices: devices
      .filter((device) => !isDone(device))
      .map((device) => ({ id: device.id, revision: device.revision, [field]: listOf(device) })),
  });
  if (session.values.dryRun === true) {
    await printDevices(
      session,
      picked,
      picked.devices.map((device) => ({ ...device, [field]: listOf(device) })),
      line,
    );
    return sayEffect(session, change(picked.devices));
  }
  const written = await changeDevices(session, picked.devices, change);
  if (written.length === 0) session.say('Nothing to change: already up to date.');
  const after = new Map(written.flatMap(({ devices }) => devices.map((device) => [device.id, device])));
  await printDevices(
    session,
    picked,
    picked.devices.map((device) => after.get(device.id) ?? device),
    line,
  );
  return picked.isMany ? sayUndo(session, written) : undefined;
}

const attempts = 10;

/** Writes what `change` makes of the devices, as one change. What somebody else wrote to a device in the meantime is kept. */
async function changeDevices(
  session: Session,
  chosen: readonly Device[],
  change: (devices: readonly Device[]) => ChangeSetBody,
): Promise<readonly WrittenChangeSet[]> {
  let devices = chosen;
  for (let attempt = 1; ; attempt += 1) {
    const body = change(devices);
    if ((body.devices ?? []).length === 0) return [];
    try {
      return await writeChanges(session, body);
    } catch (error) {
      const raced = error instanceof RingfenceError && error.code === 'precondition_failed';
      if (!raced || attempt === attempts) throw error;
      devices = await readAgain(session, chosen);
    }
  }
}

/** The devices as they are now. The person chose them by the names that they had then. */
async function readAgain(session: Session, chosen: readonly Device[]): Promise<readonly Device[]> {
  const now = new Map((await allDevices(session)).map((device) => [device.id, device]));
  return chosen.map((device) => {
    const newest = now.get(device.id);
    if (newest === undefined)
      throw new CliError('conflict', `device ${device.id} was deleted in the meantime; nothing was changed`);
    if (newest.hostname !== device.hostname) {
      const names = `${printable(deviceName(device))} is called ${printable(deviceName(newest))} now`;
      throw new CliError('conflict', `device ${device.id} was renamed in the meantime: ${names}; nothing was changed`);
    }
    return newest;
  });
}

/** What the change would do, after what it would write. */
export async function sayEffect(session: Session, change: ChangeSetBody): Promise<void> {
  const effect = await effectOf(session, change);
  for (const [sign, text] of effect.lines) session.say(`${sign} ${printable(text)}`);
  sayNotes(session, effect);
  session.say(`${effect.summary} Nothing was written.`.trim());
}

/** Prints the devices, each with a line for a person. */
export const printDevices = (
  session: Session,
  { isMany }: Devices,
  devices: readonly Device[],
  line: (device: Device) => string,
): Promise<void> =>
  session.print({
    data: isMany ? devices : devices[0],
    ids: devices.map(({ id }) => id),
    table: () => devices.map((device) => `${printable(line(device))}\n`).join(''),
  });

export const changeLabels = (
  session: Session,
  way: ListChange,
  args: readonly string[],
  filter: LabelFilter,
): Promise<void> =>
  changeList(
    session,
    way,
    { args, filter },
    {
      field: 'labels',
      what: 'label',
      read: (words) => Promise.resolve(readLabels(words)),
      isSorted: true,
      line: (device) => `Labels of device ${deviceName(device)}: ${(device.labels ?? []).join(', ') || 'none'}.`,
    },
  );
