/** Owns the confirmation of a command that is valid but may not be what the user meant, as where it names labels that no device has. */
import { CliError } from '../terminal/exit.ts';
import type { Session } from './session.ts';
import { unknownLabels } from '../../client/words/unknown-labels.ts';

/** What may be a mistake, in a sentence. */
export interface Doubt {
  readonly text: string;
  /** Whether to ask on a terminal; otherwise it is only a warning. */
  readonly asks: boolean;
}

/** A question is worth it where another label is near: that looks like a typing mistake. */
export const labelDoubts = (named: Iterable<string>, known: ReadonlySet<string>): readonly Doubt[] =>
  unknownLabels(named, known).map(({ label, near }) => {
    const text = `no device has label \`${label}\``;
    return near === undefined
      ? { text: `${text} yet.`, asks: false }
      : { text: `${text}; did you mean \`${near}\`?`, asks: true };
  });

/** Prints the doubts as warnings. On a terminal it asks, unless `--yes` or `--dry-run` is given; a no ends the command. Scripts go on. */
export async function askAbout(session: Session, doubts: readonly Doubt[]): Promise<void> {
  if (!session.isForPeople) return;
  for (const { text } of doubts) session.terminal.note(`Warning: ${text}`);
  if (doubts.some(({ asks }) => asks)) await askOnTerminal(session, 'Continue?');
}

/** Asks on a terminal, unless `--yes` or `--dry-run` is given; a no ends the command. Scripts go on. */
export async function askOnTerminal({ terminal, signal, values }: Session, question: string): Promise<void> {
  const isAsked = terminal.isInteractive && values.yes !== true && values.dryRun !== true;
  if (isAsked && !(await terminal.confirm(question, { yes: false, signal })))
    throw new CliError('failed', 'nothing was changed');
}
