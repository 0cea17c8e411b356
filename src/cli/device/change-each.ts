/**
 * Owns one change to several devices: one after the other, with a line for each, and a summary of what was done before
 * a failure.
 */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Device } from '../../api/device.ts';
import { allDevices, deviceName, pickDevices, pickLabelled, type Devices } from '../lookup/device.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { writeOrAsk } from '../lookup/opening.ts';
import { changeSafely } from '../session/retry.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { readLabels } from '../terminal/label.ts';
import { printable } from '../../node/printable.ts';

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
  readonly line: Work['line'];
}

/** Adds entries to a list of every device that is named, takes some out, or sets it. */
export async function changeList(
  session: Session,
  way: ListChange,
  {
    args,
    filter,
    detach,
  }: { readonly args: readonly string[]; readonly filter: LabelFilter; readonly detach?: boolean },
  { field, what, read, isSorted, line }: DeviceList,
): Promise<void> {
  const client = await session.client();
  const { picked, words } = await readTarget(session, args, filter);
  requireWords(way, words, what);
  const named = await read(words);
  const isDry = session.values.dryRun === true;
  const change = (device: Device): Promise<Device | undefined> =>
    changeSafely(
      device,
      () => client.devices.get(device.organization_id, device.id),
      async (newest) => {
        const { organization_id, id, revision, hostname, [field]: now = [] } = newest;
        // The person chose it by a name that it had then.
        if (hostname !== device.hostname) {
          const names = `${printable(deviceName(device))} is called ${printable(deviceName(newest))} now`;
          throw new CliError('conflict', `device ${id} was renamed in the meantime: ${names}; it was not changed`);
        }
        const list = listAfter(way, now, named);
        const after = isSorted ? list.toSorted() : list;
        if (after.join() === now.join()) return undefined;
        if (isDry) return { ...newest, [field]: after };
        return writeOrAsk(session, detach, (asked) =>
          client.devices.update(organization_id, id, { [field]: after }, { ifMatch: revision, ...asked }),
        );
      },
    );
  const made = await changeEach(session, picked, { change, line });
  if (isDry)
    await sayEffect(session, { devices: made.map((device) => ({ id: device.id, [field]: device[field] ?? [] })) });
}

/** What the change would do, after what it would write. */
export async function sayEffect(session: Session, change: ChangeSetBody): Promise<void> {
  const effect = await effectOf(session, change);
  for (const [sign, text] of effect.lines) session.say(`${sign} ${printable(text)}`);
  sayNotes(session, effect);
  session.say(`${effect.summary} Nothing was written.`.trim());
}

export interface Work {
  /** Undefined: it is so already. */
  readonly change: (device: Device) => Promise<Device | undefined>;
  /** What a person reads of a device after the change. */
  readonly line: (device: Device) => string;
}

export async function changeEach(
  session: Session,
  { devices, isMany }: Devices,
  { change, line }: Work,
): Promise<readonly Device[]> {
  const after: Device[] = [];
  let changed = 0;
  try {
    for (const device of devices) {
      session.signal.throwIfAborted();
      const made = await change(device);
      if (made !== undefined) changed += 1;
      after.push(made ?? device);
    }
  } catch (error) {
    if (isMany) {
      const stuck = devices[after.length];
      const where = stuck === undefined ? '' : `, until ${printable(deviceName(stuck))}`;
      session.terminal.note(`${changed} of ${devices.length} devices were changed${where}.`);
    }
    throw error;
  }
  if (changed === 0) session.say('Nothing to change: already up to date.');
  const [first] = after;
  await session.print({
    data: isMany ? after : first,
    ids: after.map(({ id }) => id),
    table: () => after.map((device) => `${printable(line(device))}\n`).join(''),
  });
  return after;
}
