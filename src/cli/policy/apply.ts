/** Owns the application of policy files: the confirmation, and then the steps one by one. */
import type { Client } from '../../client/http.ts';
import type { WrittenGroup } from '../../api/group.ts';
import { sayWarnings, updateGroup } from '../group/run.ts';
import { wouldOpen, writeOrAsk, type DetachOption } from '../lookup/opening.ts';
import { askAbout } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { CliError } from '../terminal/exit.ts';
import { movedLines } from './moved-names.ts';
import type { GroupReference, Step } from './plan.ts';
import { sayNotes } from '../lookup/effect.ts';
import { paintLine } from '../terminal/change-line.ts';
import { countSteps, effectOfSteps, planFiles, report, stepLines, type FileOptions } from './plan-files.ts';

export interface ApplyOptions extends FileOptions {
  readonly force?: boolean;
  readonly detach?: boolean;
  /** Names may mean other devices than before. */
  readonly acceptMoved?: boolean;
}

/** What steps are taken with. */
interface ApplyContext {
  readonly client: Client;
  readonly organization: string;
  /** Ids of groups that steps before have made. */
  readonly made: Map<string, string>;
  /** Lets a write end as a whole. */
  readonly whole: { readonly signal: AbortSignal };
  readonly force: { readonly force?: true };
}

export async function apply(session: Session, given: readonly string[], options: ApplyOptions): Promise<void> {
  const { steps, doubts, moved } = await planFiles(session, given, options);
  const warnings = movedLines(moved);
  if (session.values.dryRun === true || steps.length === 0) {
    const effect = await effectOfSteps(session, steps);
    await report(session, steps, 'would', { effect });
    if (effect !== undefined) sayNotes(session, effect);
    for (const { text } of doubts) session.say(`Warning: ${text}`);
    for (const line of warnings) session.terminal.note(`Warning: ${line}`);
    return undefined;
  }
  await askAbout(session, doubts);
  await askAboutMoved(session, warnings, options);
  const isShown = await ask(session, steps);
  await perform(session, steps, options);
  return report(session, steps, 'did', { isShown });
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

/** Shows the plan to a user and asks for confirmation, unless `--yes` is given. Returns whether the plan was shown. */
async function ask(session: Session, steps: readonly Step[]): Promise<boolean> {
  const { terminal, values } = session;
  if (values.yes === true) return false;
  if (terminal.isInteractive) {
    for (const line of stepLines(steps, terminal.paintError)) terminal.note(line);
    const effect = await effectOfSteps(session, steps);
    for (const line of effect?.lines ?? []) terminal.note(paintLine(line, terminal.paintError));
    for (const note of effect?.notes ?? []) terminal.note(note);
    terminal.note(`${countSteps(steps, 'would')}. ${effect?.summary ?? ''}`.trim());
  }
  const deleted = steps.filter(({ action }) => action === 'delete').map(({ name }) => name);
  const warning = deleted.length === 0 ? '' : ` Groups to delete: ${deleted.join(', ')}.`;
  const question = `Apply ${steps.length === 1 ? 'this change' : `these ${steps.length} changes`}?${warning}`;
  if (!(await session.confirm(question))) throw new CliError('failed', 'nothing was changed');
  return terminal.isInteractive;
}

/** Ctrl-C takes effect between two steps, never in the middle of one. */
async function perform(session: Session, steps: readonly Step[], { force, detach }: ApplyOptions): Promise<void> {
  const made = new Map<string, string>();
  const client = await session.client();
  const organization = await session.organization();
  // Without this signal, the command's own one would end a request whose write may have happened.
  const whole = { signal: new AbortController().signal };
  const context: ApplyContext = { client, organization, made, whole, force: force === true ? { force } : {} };
  let count = 0;
  const take = async (step: Step, asked: DetachOption): Promise<void> => {
    session.signal.throwIfAborted();
    const group = await takeStep(context, step, asked);
    count += 1;
    if (step.kind === 'group' && step.action !== 'delete') sayWarnings(session, group);
    if (step.kind === 'group' && step.action === 'create') made.set(`${step.scope} ${step.name}`, group.id);
  };
  try {
    // The step that gives a device another group may come after the one that takes its last: such steps are tried again.
    let left = await takeSafe(steps, take);
    for (let before = steps.length; left.length > 0 && left.length < before;) {
      before = left.length;
      left = await takeSafe(left, take);
    }
    for (const step of left) await writeOrAsk(session, detach, (asked) => take(step, asked));
  } catch (error) {
    session.terminal.note(`${count} of ${steps.length} changes were made. Apply again to make the rest.`);
    throw error;
  }
}

/** Takes the steps that open no device, and gives back the others. */
async function takeSafe(
  steps: readonly Step[],
  take: (step: Step, asked: DetachOption) => Promise<void>,
): Promise<readonly Step[]> {
  const left: Step[] = [];
  for (const step of steps) {
    try {
      await take(step, {});
    } catch (error) {
      if (!wouldOpen(error)) throw error;
      left.push(step);
    }
  }
  return left;
}

function takeStep(
  { client, organization, made, whole, force }: ApplyContext,
  step: Step,
  asked: DetachOption,
): Promise<{ readonly id: string } & Pick<WrittenGroup, 'warnings'>> {
  switch (step.action) {
    case 'create':
      return (step.scope === 'me' ? client.userGroups : client.groups).create(organization, step.body, {
        ...whole,
        ...force,
      });
    case 'delete': {
      const { org_id, id, user_id, revision } = step.group;
      return (user_id === undefined ? client.groups : client.userGroups).delete(org_id, id, {
        ...whole,
        ifMatch: revision,
      });
    }
    case 'update': {
      if (step.kind === 'group')
        return updateGroup(client, step.group, step.body, {
          ...whole,
          ifMatch: step.group.revision,
          ...force,
          ...asked,
        });
      const { organization_id, id, revision } = step.device;
      const body = {
        ...(step.groups && { security_groups: step.groups.map((group) => idOf(group, made)) }),
        ...(step.labels && { labels: step.labels }),
      };
      return client.devices.update(organization_id, id, body, { ...whole, ifMatch: revision, ...asked });
    }
    default:
      return step satisfies never;
  }
}

function idOf(group: GroupReference, made: ReadonlyMap<string, string>): string {
  if ('id' in group) return group.id;
  const id = made.get(`${group.scope} ${group.name}`);
  if (id === undefined) throw new Error(`the group ${group.name} was not created`);
  return id;
}
