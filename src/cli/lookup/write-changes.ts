/**
 * Owns the writing of several records as one change: by `apply`, by commands about many devices, and by renames. All of them go through `writeChanges`,
 * so that they split, ask and report alike.
 */
import type { ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import { limits } from '../../api/limits.ts';
import { changeParts } from '../../client/change-parts.ts';
import { RingfenceError } from '../../client/error.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { namedRefusal, type EntryNaming } from './named-refusal.ts';
import { writeOrAsk } from './opening.ts';

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
