/** Owns `--wait`: until a revision, mostly that of a write, is in force on every device, with a line that tells how far it is. */
import { setTimeout } from 'node:timers/promises';
import type { Convergence } from '../../api/enforcement/convergence.ts';
import { CliError } from '../terminal/exit.ts';
import type { Layout } from '../terminal/table.ts';
import { readDuration } from '../terminal/time.ts';
import { countsLine, mostUrgent, renderExceptions } from './in-force.ts';
import type { Session } from './session.ts';

const defaultMs = 120_000;
/** How long one question may be held back: the line is drawn anew that often. */
const heldBackMs = 2_000;
const shownDevices = 20;
/** For the lines of an error: nothing is cut, and nothing painted. */
const plain: Layout = { paint: (_, text) => text, wide: false, headers: true, width: undefined };

const isOver = ({ in_force, devices }: Convergence): boolean => in_force === devices;
/** Whether a device has said that it does not work there. */
export const isRefused = ({ failed, reverted, not_understood }: Convergence): boolean =>
  failed + reverted + not_understood > 0;

/** What this session wrote; where all was so already, what stands: whoever asked again after a failure wants to know that it is in force. */
async function revisionOf(session: Session): Promise<number> {
  if (session.writtenRevision !== undefined) return session.writtenRevision;
  const client = await session.client();
  const options = { limit: 1, signal: session.signal };
  return (await client.statuses.convergence(await session.organization(), options)).revision;
}

/** Waits until it is in force. `given`: the option's value; true where it has none. */
export async function waitInForce(session: Session, given: string | true): Promise<void> {
  if (session.isLeft || session.values.dryRun === true) return;
  const until = deadlineOf(given);
  const revision = await revisionOf(session);
  const answer = await followInForce(session, revision, until);
  if (isOver(answer)) return session.say(`Revision ${revision} is ${countsLine(answer)}.`);
  const shown = mostUrgent(answer.pending).slice(0, shownDevices);
  const more = answer.devices - answer.in_force - shown.length;
  const table = renderExceptions(shown, Date.now(), plain).trimEnd().split('\n');
  const details = [...table, ...(more > 0 ? [`and ${more} more: ringfence status`] : [])];
  if (isRefused(answer)) throw new CliError('failed', `revision ${revision} is ${countsLine(answer)}`, details);
  throw new CliError('timeOver', `time is over: revision ${revision} is ${countsLine(answer)}`, details);
}

/** By `performance.now()`. */
export const deadlineOf = (given: string | true): number =>
  performance.now() + (given === true ? defaultMs : readDuration(given));

/** Until everything that is connected has answered, or until the time is over. */
export async function followInForce(session: Session, revision: number, until: number): Promise<Convergence> {
  const client = await session.client();
  const organization = await session.organization();
  try {
    for (;;) {
      const leftMs = Math.max(0, until - performance.now());
      const answer = await client.statuses.convergence(organization, {
        revision,
        wait: Math.ceil(Math.min(heldBackMs, leftMs) / 1_000),
        limit: 1_000,
        signal: session.signal,
      });
      if (isOver(answer) || performance.now() >= until) return answer;
      // Nobody who could still get there is left, and somebody has said that it does not work.
      if (isRefused(answer) && answer.behind === 0) return answer;
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
      const { devices } = await client.statuses.convergence(organization, { limit: 1, signal });
      const leftMs = until - performance.now();
      if (devices >= wanted || leftMs <= 0) return;
      session.terminal.progress(`waiting for devices: ${devices} of ${wanted} joined`);
      await setTimeout(Math.min(joinPollMs, leftMs), undefined, { signal });
    }
  } finally {
    session.terminal.progress(undefined);
  }
}
