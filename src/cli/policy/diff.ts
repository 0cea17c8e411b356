/** Owns the comparison of policy files with the server, for users and for scripts that check for drift. */
import type { Session } from '../session/session.ts';
import { CliError, commandExitOf } from '../terminal/exit.ts';
import { movedLines } from './moved-names.ts';
import type { Step } from './plan.ts';
import { sayNotes } from '../lookup/effect.ts';
import { effectOfPlan, planFiles, report, sayUnlisted, type FileOptions } from './plan-files.ts';

export interface DiffOptions extends FileOptions {
  readonly detailedExitcode?: boolean;
}

/** As terraform has it: 0 nothing would change, 1 an error, 2 something would. */
const changesPending = 2;

export async function diff(session: Session, given: readonly string[], options: DiffOptions): Promise<void> {
  if (options.detailedExitcode !== true) {
    await show(session, given, options);
    return undefined;
  }
  try {
    const steps = await show(session, given, options);
    if (steps.length > 0) process.exitCode = changesPending;
  } catch (error) {
    session.signal.throwIfAborted();
    const [first = '', ...rest] = commandExitOf(error, { debug: false }).lines;
    throw new CliError(
      'failed',
      first,
      rest.map((line) => line.trim()),
    );
  }
  return undefined;
}

async function show(session: Session, given: readonly string[], options: FileOptions): Promise<readonly Step[]> {
  const plan = await planFiles(session, given, options);
  const { steps, unlisted, doubts, moved } = plan;
  const effect = await effectOfPlan(session, plan);
  await report(session, steps, 'would', { effect });
  if (effect !== undefined) sayNotes(session, effect);
  sayUnlisted(session, unlisted);
  for (const { text } of doubts) session.say(`Warning: ${text}`);
  for (const line of movedLines(moved)) session.terminal.note(`Warning: ${line}`);
  return steps;
}
