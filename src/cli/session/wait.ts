/**
 * Owns `--wait`: waits until a revision, usually that of a write, is in force on the devices that it concerns, with a progress line.
 */
import { setTimeout } from 'node:timers/promises';
import type { InForce } from '../../api/enforcement/in-force.ts';
import type { Convergence } from '../../api/enforcement/convergence.ts';
import { RingfenceError } from '../../client/error.ts';
import { CliError } from '../terminal/exit.ts';
import type { Layout } from '../terminal/table.ts';
import { readDuration } from '../terminal/time.ts';
import { adviceLines, awayLine, countsLine, mostUrgent, renderExceptions } from './in-force.ts';
import type { Changed, Session } from './session.ts';

const defaultMs = 120_000;
/** How long one question may be held back: the line is drawn anew that often. */
const heldBackMs = 2_000;
const shownDevices = 20;
/** For the lines of an error: nothing is cut, and nothing painted. */
const plain: Layout = { paint: (_, text) => text, wide: false, headers: true, width: undefined };

const refused: ReadonlySet<InForce> = new Set(['failed', 'reverted', 'not_understood']);

/** Whether the devices that are waited for enforce it: all of them, or all but those that are away. */
const isOver = ({ in_force, devices, offline }: Convergence, waitFor: WaitFor): boolean =>
  in_force + (waitFor === 'all' ? 0 : offline) === devices;

/** The answer without the devices on which no agent was ever installed. */
const ofInstalled = (answer: Convergence): Convergence => ({
  ...answer,
  devices: answer.devices - answer.never_seen,
  never_seen: 0,
  pending: answer.pending.filter(({ in_force }) => in_force !== 'never_seen'),
});

/** Whether a device has said that it does not work there. */
export const isRefused = ({ failed, reverted, not_understood }: Convergence): boolean =>
  failed + reverted + not_understood > 0;

/** Whether everybody who has said so has said it of this revision: what failed before may be what it repairs. */
const isFinal = ({ revision, devices, in_force, pending }: Convergence): boolean =>
  pending.length === devices - in_force &&
  pending.every(
    (device) =>
      !refused.has(device.in_force) || Math.max(device.revision ?? -1, device.observed_revision ?? -1) >= revision,
  );

type WaitFor = 'online' | 'all';

/** A revision of an organization that is waited for. */
type AwaitedRevision = Changed['organizations'][number] & {
  /** Only devices whose policy changed after this revision count. */
  readonly since?: number | undefined;
};

/**
 * The organization's revision before the command writes. A server that is asked now also follows the changes exactly from here on. Undefined where
 * the command is about no organization.
 */
export async function revisionBefore(session: Session): Promise<number | undefined> {
  if (session.values.dryRun === true) return undefined;
  try {
    const [client, organization] = [await session.client(), await session.organization()];
    return (await client.statuses.convergence(organization, { limit: 1 })).revision;
  } catch (error) {
    // A command that needs the organization finds the same, and a server administrator may have none.
    if (error instanceof CliError || error instanceof RingfenceError) return undefined;
    throw error;
  }
}

/**
 * The revisions that this session wrote. If nothing had to be written, the current revision: a user who repeats a
 * failed command wants to know that its result is in force.
 */
async function awaitedBy(session: Session, since: number | undefined): Promise<readonly AwaitedRevision[]> {
  if (session.changed !== undefined) return session.changed.organizations;
  const organization_id = await session.organization();
  if (session.writtenRevision !== undefined) return [{ organization_id, revision: session.writtenRevision, since }];
  const client = await session.client();
  const { revision } = await client.statuses.convergence(organization_id, { limit: 1 });
  return [{ organization_id, revision }];
}

/** Waits until it is in force. `given`: the option's value; true where it has none. */
export async function waitInForce(session: Session, given: string | true, since: number | undefined): Promise<void> {
  if (session.isLeft || session.values.dryRun === true) return;
  const until = deadlineOf(given);
  const waitFor = session.values.waitFor ?? 'online';
  const awaited = await awaitedBy(session, since);
  // With several organizations, each is named by its id.
  const nameOf = ({ organization_id, revision }: AwaitedRevision): string =>
    awaited.length > 1 ? `revision ${revision} of organization ${organization_id}` : `revision ${revision}`;
  const missing: { readonly name: string; readonly answer: Convergence }[] = [];
  for (const one of awaited) {
    const answer = await followInForce(session, one, { until, waitFor });
    if (isOver(answer, waitFor)) sayOver(session, nameOf(one).replace('r', 'R'), answer);
    else missing.push({ name: nameOf(one), answer });
  }
  const refusing = missing.filter(({ answer }) => isRefused(answer));
  const [first] = refusing.length > 0 ? refusing : missing;
  if (first !== undefined) {
    const { name, answer } = first;
    const others = missing.filter((one) => one !== first).map((one) => `${one.name} is ${countsLine(one.answer)}`);
    const details = [...exceptionLines(answer), ...others];
    if (isRefused(answer)) throw new CliError('failed', `${name} is ${countsLine(answer)}`, details);
    throw new CliError('timeOver', `timeout: ${name} is ${countsLine(answer)}`, details);
  }
  const hidden = session.changed?.hidden ?? 0;
  if (hidden === 0) return;
  const where = hidden === 1 ? 'an organization' : `${hidden} organizations`;
  throw new CliError('notAllowed', `only members of ${where} can see whether it is in force there`);
}

function sayOver(session: Session, name: string, answer: Convergence): void {
  if (answer.devices === 0) return session.say(`${name} concerns no device with an agent.`);
  session.say(`${name} is ${countsLine(answer)}.`);
  const away = awayLine(answer);
  if (away !== undefined) session.say(away);
}

function exceptionLines(answer: Convergence): readonly string[] {
  const shown = mostUrgent(answer.pending).slice(0, shownDevices);
  const more = answer.devices - answer.in_force - shown.length;
  const table = renderExceptions(shown, Date.now(), plain).trimEnd().split('\n');
  return [...table, ...(more > 0 ? [`and ${more} more: ringfence status`] : []), ...adviceLines(shown)];
}

/** By `performance.now()`. */
export const deadlineOf = (given: string | true): number =>
  performance.now() + (given === true ? defaultMs : readDuration(given));

/** Until everything that is waited for has answered, or until the time is over. */
export async function followInForce(
  session: Session,
  { organization_id, revision, since }: AwaitedRevision,
  { until, waitFor }: { readonly until: number; readonly waitFor: WaitFor },
): Promise<Convergence> {
  const client = await session.client();
  try {
    for (;;) {
      const leftMs = Math.max(0, until - performance.now());
      const found = await client.statuses.convergence(organization_id, {
        revision,
        ...(since !== undefined && { since }),
        wait: Math.ceil(Math.min(heldBackMs, leftMs) / 1_000),
        limit: 1_000,
      });
      const answer = waitFor === 'all' ? found : ofInstalled(found);
      if (isOver(answer, waitFor) || performance.now() >= until) return answer;
      // No device is left that could still get there, and at least one has reported a failure.
      if (isRefused(answer) && answer.behind === 0 && isFinal(answer)) return answer;
      session.terminal.progress(`waiting for revision ${revision}: ${countsLine(answer)}`);
    }
  } finally {
    session.terminal.progress(undefined);
  }
}

const joinPollMs = 500;

/** Until so many devices are in the organization, or until the time is over. */
export async function followJoining(session: Session, wanted: number, until: number): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const { signal } = session;
  try {
    for (;;) {
      const { devices } = await client.statuses.convergence(organization, { limit: 1 });
      const leftMs = until - performance.now();
      if (devices >= wanted || leftMs <= 0) return;
      session.terminal.progress(`waiting for devices: ${devices} of ${wanted} joined`);
      await setTimeout(Math.min(joinPollMs, leftMs), undefined, { signal });
    }
  } finally {
    session.terminal.progress(undefined);
  }
}
