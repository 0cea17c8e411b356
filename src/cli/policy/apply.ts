/** Owns the applying of policy files: what would change, and the steps that change it. */
import type { Client } from '../../client/http.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { readInput } from '../terminal/input-file.ts';
import { readPolicy } from './policy-file.ts';
import { planPolicy, renderStep, type GroupReference, type Step } from './plan.ts';
import type { Session } from '../session/session.ts';
import { allDevices } from '../lookup/device.ts';
import { allGroups } from '../lookup/group.ts';
import { updateGroup } from '../group/run.ts';

export interface ApplyOptions {
  readonly file?: readonly string[];
  readonly dryRun?: boolean;
  readonly prune?: boolean;
}

export async function apply(session: Session, options: ApplyOptions): Promise<void> {
  const { signal } = session;
  const files = options.file ?? [];
  if (files.length === 0) throw usageError('no policy file given: -f FILE, a folder, or - for stdin');
  const documents = (await Promise.all(files.map((file) => readInput(file, session)))).flat();
  const desired = readPolicy(documents);
  if (desired.groups.length + desired.devices.length === 0) throw usageError('the files name no group and no device');
  const client = await session.client();
  const [groups, devices, me] = await Promise.all([
    allGroups(session),
    desired.devices.length > 0 ? allDevices(session) : [],
    client.whoAmI({ signal }),
  ]);
  const steps = planPolicy(desired, { groups, devices, me: me.id }, { prune: options.prune === true });
  if (options.dryRun === true) return report(session, steps, 'would');
  await ask(session, steps);
  await perform(session, client, steps);
  return report(session, steps, 'did');
}

const deletions = (steps: readonly Step[]): readonly Step[] => steps.filter(({ action }) => action === 'delete');

async function ask(session: Session, steps: readonly Step[]): Promise<void> {
  const gone = deletions(steps);
  if (gone.length === 0) return;
  const names = gone.map(({ name }) => name).join(', ');
  if (!(await session.confirm(`Delete ${gone.length === 1 ? 'group' : `${gone.length} groups:`} ${names}?`))) {
    throw new CliError('failed', 'nothing was changed');
  }
}

/** Ctrl-C takes effect between two steps, never in the middle of one. */
async function perform(session: Session, client: Client, steps: readonly Step[]): Promise<void> {
  const made = new Map<string, string>();
  const organization = await session.organization();
  for (const [index, step] of steps.entries()) {
    try {
      session.signal.throwIfAborted();
      const group = await takeStep(client, organization, step, made);
      if (step.kind === 'group' && step.action === 'create') made.set(`${step.scope} ${step.name}`, group.id);
    } catch (error) {
      session.terminal.note(`${index} of ${steps.length} changes were made; applying again makes the rest.`);
      throw error;
    }
  }
}

function takeStep(
  client: Client,
  organization: string,
  step: Step,
  made: ReadonlyMap<string, string>,
): Promise<{ readonly id: string }> {
  switch (step.action) {
    case 'create':
      return (step.scope === 'me' ? client.userGroups : client.groups).create(organization, step.body);
    case 'delete': {
      const { org_id, id, user_id, revision } = step.group;
      return (user_id === undefined ? client.groups : client.userGroups).delete(org_id, id, { ifMatch: revision });
    }
    case 'update': {
      if (step.kind === 'group') return updateGroup(client, step.group, step.body, { ifMatch: step.group.revision });
      const { organization_id, id, revision } = step.device;
      const security_groups = step.groups.map((group) => idOf(group, made));
      return client.devices.update(organization_id, id, { security_groups }, { ifMatch: revision });
    }
    default:
      return step satisfies never;
  }
}

function idOf(group: GroupReference, made: ReadonlyMap<string, string>): string {
  if ('id' in group) return group.id;
  const id = made.get(`${group.scope} ${group.name}`);
  if (id === undefined) throw new Error(`the group ${group.name} was not made`);
  return id;
}

function report(session: Session, steps: readonly Step[], mood: 'would' | 'did'): Promise<void> {
  return session.print({
    data: steps.map(({ action, kind, name, lines }) => ({
      action,
      kind,
      name,
      changes: lines.map(([sign, text]) => `${sign} ${text}`),
    })),
    ids: steps.map(({ name }) => name),
    table: (paint) => steps.map((step) => renderStep(step, paint)).join('') + `${summary(steps, mood)}\n`,
  });
}

function summary(steps: readonly Step[], mood: 'would' | 'did'): string {
  if (steps.length === 0) return 'No changes: everything matches the files.';
  const words = { create: 'created', update: 'changed', delete: 'deleted' } as const;
  const counts = (['create', 'update', 'delete'] as const).flatMap((action) => {
    const count = steps.filter((step) => step.action === action).length;
    return count === 0 ? [] : [`${count} ${mood === 'would' ? 'to be ' : ''}${words[action]}`];
  });
  return `${counts.join(', ')}.${mood === 'would' ? ' Nothing was written.' : ''}`;
}
