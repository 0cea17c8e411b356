/** Owns the applying of policy files: the questions before it, and one change of all records. */
import { sayUndo, writeChanges } from '../lookup/write-changes.ts';
import { askAbout } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { CliError } from '../terminal/exit.ts';
import { movedLines } from './moved-names.ts';
import { sayNotes } from '../lookup/effect.ts';
import { paintLine } from '../terminal/screen.ts';
import {
  countSteps,
  effectOfPlan,
  planFiles,
  report,
  stepLines,
  type FileOptions,
  type FilePlan,
} from './plan-files.ts';

export interface ApplyOptions extends FileOptions {
  /** Names may mean other devices than before. */
  readonly acceptMoved?: boolean;
}

export async function apply(session: Session, given: readonly string[], options: ApplyOptions): Promise<void> {
  const plan = await planFiles(session, given, options);
  const { steps, doubts, moved } = plan;
  const warnings = movedLines(moved);
  if (session.values.dryRun === true || steps.length === 0) {
    const effect = await effectOfPlan(session, plan);
    await report(session, steps, 'would', { effect });
    if (effect !== undefined) sayNotes(session, effect);
    for (const { text } of doubts) session.say(`Warning: ${text}`);
    for (const line of warnings) session.terminal.note(`Warning: ${line}`);
    return undefined;
  }
  await askAbout(session, doubts);
  await askAboutMoved(session, warnings, options);
  const isShown = await ask(session, plan);
  const written = await writeChanges(session, plan.change, plan.nameEntry);
  await report(session, steps, 'did', { isShown });
  return sayUndo(session, written);
}

/** `--yes` is no answer to this: it was said before anybody knew of the other device. */
async function askAboutMoved(
  { terminal, signal }: Session,
  warnings: readonly string[],
  { acceptMoved }: ApplyOptions,
): Promise<void> {
  if (warnings.length === 0) return;
  const remedy =
    'To refer to a device independently of its name, add its `id` next to `device`, and write `device:ID` in rules.';
  if (acceptMoved === true || terminal.isInteractive) {
    for (const line of [...warnings, remedy]) terminal.note(acceptMoved === true ? `Warning: ${line}` : line);
    if (
      acceptMoved === true ||
      (await terminal.confirm('Are these the devices that you mean?', { yes: false, signal }))
    )
      return;
    throw new CliError('failed', 'nothing was changed');
  }
  throw new CliError('conflict', 'names in the files refer to different devices than before; nothing was changed:', [
    ...warnings,
    remedy,
    'If this is correct, apply again with --accept-moved.',
  ]);
}

/** Shows the plan to a person and asks; whoever said `--yes` is not asked. Tells whether the plan was shown. */
async function ask(session: Session, plan: FilePlan): Promise<boolean> {
  const { steps } = plan;
  const { terminal, values } = session;
  if (values.yes === true) return false;
  if (terminal.isInteractive) {
    for (const line of stepLines(steps, terminal.paintError)) terminal.note(line);
    const effect = await effectOfPlan(session, plan);
    for (const line of effect?.lines ?? []) terminal.note(paintLine(line, terminal.paintError));
    for (const note of effect?.notes ?? []) terminal.note(note);
    terminal.note(`${countSteps(steps, 'would')}. ${effect?.summary ?? ''}`.trim());
  }
  const deletedOf = (kind: 'group' | 'test'): string => {
    const names = steps.flatMap((step) => (step.action === 'delete' && step.kind === kind ? [step.name] : []));
    return names.length === 0 ? '' : ` ${kind === 'group' ? 'Groups' : 'Tests'} to delete: ${names.join(', ')}.`;
  };
  const warning = `${deletedOf('group')}${deletedOf('test')}`;
  const question = `Apply ${steps.length === 1 ? 'this change' : `these ${steps.length} changes`}?${warning}`;
  if (!(await session.confirm(question))) throw new CliError('failed', 'nothing was changed');
  return terminal.isInteractive;
}
