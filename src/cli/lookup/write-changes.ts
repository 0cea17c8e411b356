/** Owns writes as commands make them: a change in as many parts as its size needs, what a write that leaves a device open asks, and refusals by names in place of pointers. */
import type { ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import { limits } from '../../api/limits.ts';
import { changeParts } from '../../client/change-parts.ts';
import { RingfenceError } from '../../client/error.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Session } from '../session/session.ts';
import { usageError, CliError } from '../terminal/exit.ts';
import { allDevices, deviceName } from './device.ts';

const countOf = ({ security_groups = [], devices = [], delete: gone = [] }: ChangeSetBody): number =>
  security_groups.length + devices.length + gone.length;

/**
 * Writes the change in one transaction, and gives what was written. A change that is too large for that is written in several, and the person is told. Ctrl-C
 * takes effect between two of these, never while one is written: its outcome would be unknown. A refusal calls entries by `nameEntry`, or by their ids.
 */
export async function writeChanges(
  session: Session,
  change: ChangeSetBody,
  nameEntry?: EntryNaming,
): Promise<readonly WrittenChangeSet[]> {
  const client = await session.client();
  const organization = await session.organization();
  const parts = changeParts(change);
  if (parts.length > 1) {
    const most = limits.changeSetRecords;
    if (session.trial.confirm_within !== undefined)
      throw usageError(
        `the change has ${countOf(change)} records, and one trial may have ${most}; nothing was written`,
      );
    session.terminal.note(
      `The change has ${countOf(change)} records, and one change may have ${most}: it is written as ${parts.length} changes, one after the other.`,
    );
  }
  const whole = { signal: new AbortController().signal };
  const written: WrittenChangeSet[] = [];
  for (const part of parts) {
    session.signal.throwIfAborted();
    try {
      const made = await writeOrAsk(session, (asked) =>
        client.changes.apply(organization, part, { ...session.groupQuery, ...asked, ...whole }),
      );
      session.noteWritten(made.revision);
      session.noteTrial(...made.security_groups, ...made.devices);
      written.push(made);
    } catch (error) {
      if (written.length > 0)
        session.terminal.note(`${written.length} of ${parts.length} changes were made, and stay.`);
      if (!(error instanceof RingfenceError)) throw error;
      if (nameEntry !== undefined || countOf(change) > 1)
        throw namedRefusal(error, part, nameEntry ?? (() => undefined));
      // The place in a list of one says nothing: `/delete/0: You do not have permission`.
      error.message = error.message.replace(/^\/\w+\/0: /, '');
      throw error;
    }
  }
  for (const { warnings } of written) for (const { detail } of warnings) session.say(`Warning: ${printable(detail)}`);
  return written;
}

/** How to undo what was written. */
export function sayUndo(session: Session, written: readonly WrittenChangeSet[]): void {
  // A trial has its own way back.
  if (session.startedTrial !== undefined) return;
  const ids = written.map(({ change_id }) => change_id).toReversed();
  if (ids.length > 0) session.say(`To undo it: ${ids.map((id) => `ringfence undo ${id}`).join(' && ')}`);
}

/** How a write goes on in spite of the devices that it opens. */
interface DetachQuery {
  readonly detach?: true;
}

const wouldOpen = (error: unknown): error is RingfenceError =>
  error instanceof RingfenceError && error.code === 'would_open';

const reason = 'these devices would have no group left, and the default group would apply to them';

/**
 * Writes. Where that would open devices, shows them and asks, and writes with `detach` after a yes. In a script, and with `--yes`, which answers a
 * question that came before, `--detach` must be given.
 */
export async function writeOrAsk<T>(session: Session, write: (asked: DetachQuery) => Promise<T>): Promise<T> {
  const { terminal, signal, values } = session;
  if (values.detach === true) return write({ detach: true });
  try {
    return await write({});
  } catch (error) {
    if (!wouldOpen(error)) throw error;
    const devices = await openedNames(session, error);
    if (!terminal.isInteractive || values.yes === true) {
      throw new CliError('conflict', `nothing was written: ${reason}; to continue, use --detach`, devices);
    }
    terminal.note(`${reason[0]?.toUpperCase()}${reason.slice(1)}:`);
    for (const name of devices) terminal.note(`  ${printable(name)}`);
    if (!(await terminal.confirm('Continue?', { yes: false, signal })))
      throw new CliError('conflict', 'nothing was changed');
    return write({ detach: true });
  }
}

async function openedNames(session: Session, { devices, moreDevices }: RingfenceError): Promise<readonly string[]> {
  const known = new Map<string, string>((await allDevices(session)).map((device) => [device.id, deviceName(device)]));
  const names = devices.map((id) => `${known.get(id) ?? id} (${id})`);
  return moreDevices > 0 ? [...names, `and ${moreDevices} more`] : names;
}

const kinds = { security_groups: 'group', devices: 'device', delete: 'record', policy_tests: 'test' } as const;

/** Names an entry of the change, and the field of it that the pointer leads to. */
export type EntryNaming = (entry: unknown, pointer: string) => string | undefined;

const entryPointer = /^\/(security_groups|devices|delete|policy_tests)\/(\d+)((?:\/[^\s:]*)?)/;

const idOf = (entry: unknown): string => {
  if (typeof entry === 'string') return entry;
  return typeof entry === 'object' && entry !== null && 'id' in entry ? String(entry.id) : '';
};

/** The same refusal of this change, in words. */
export function namedRefusal(error: RingfenceError, change: ChangeSetBody, nameEntry: EntryNaming): RingfenceError {
  const inWords = (text: string): string =>
    text.replace(entryPointer, (whole: string, list: keyof typeof kinds, index: string, rest: string) => {
      const entry: unknown = change[list]?.[Number(index)];
      if (entry === undefined) return whole;
      return nameEntry(entry, rest) ?? `${kinds[list]} ${idOf(entry)}${rest}`;
    });
  const bare = error.message.replace(/^\/\w+\/\d+: /, '');
  // The message of a single problem is the problem itself, and its pointer says where.
  const said = error.errors.find(({ pointer, detail }) => detail === bare && entryPointer.test(pointer));
  return new RingfenceError({
    ...error,
    message: said === undefined ? inWords(error.message) : `${inWords(said.pointer)}: ${said.detail}`,
    errors: error.errors.filter((one) => one !== said).map((one) => ({ ...one, pointer: inWords(one.pointer) })),
    cause: error.cause,
  });
}
