/** Owns what follows a write with `--confirm-within`: it waits until devices have the change, shows how they are, and asks whether to keep it. */
import { setTimeout } from 'node:timers/promises';
import type { Trial } from '../../api/trial/trials.ts';
import { RingfenceError } from '../../client/error.ts';
import { exitCodes } from '../terminal/exit.ts';
import { readDuration } from '../terminal/time.ts';
import { countsLine } from './in-force.ts';
import type { Session, StartedTrial } from './session.ts';
import { endingWords, endWords, hasTrouble, trialLines } from './trial-words.ts';

/** For so long devices are waited for at first, and no longer than half of the trial: the other half is for the answer. */
const firstWaitMs = 60_000;
/** For so long after the answer `wait`. */
const nextWaitMs = 15_000;
const pollMs = 500;
/** The server reverts within moments; agents have done so already. */
const revertMs = 20_000;

const leftOf = ({ started_at, ends_at, notedAt }: StartedTrial): number =>
  Date.parse(ends_at) - Date.parse(started_at) - (performance.now() - notedAt);

/** Until no device that is connected is behind, or until the time is over. */
async function followDevices(session: Session, started: StartedTrial, until: number): Promise<Trial> {
  const client = await session.client();
  const organization = await session.organization();
  try {
    for (;;) {
      const trial = await client.trials.get(organization, started.id);
      const { enforcement } = trial;
      const leftMs = until - performance.now();
      if (enforcement === undefined || enforcement.behind === 0 || leftMs <= 0) return trial;
      session.terminal.progress(
        `trying the change: ${countsLine(enforcement)}; taken back in ${Math.round(leftOf(started) / 1_000)} s`,
      );
      // This also asks the devices that are behind to report.
      const wait = Math.max(1, Math.min(2, Math.ceil(leftMs / 1_000)));
      const { devices, in_force } = await client.statuses.convergence(organization, {
        revision: trial.revision,
        wait,
        limit: 1,
      });
      if (devices === in_force) continue;
      await setTimeout(Math.min(pollMs, Math.max(0, leftMs)), undefined, { signal: session.signal });
    }
  } finally {
    session.terminal.progress(undefined);
  }
}

/** What becomes of the change, with the exit code. */
function tellEnd(session: Session, trial: Trial): void {
  session.terminal.note(endingWords(trial));
  if (trial.state === 'expired') process.exitCode = exitCodes.timeOver;
  else if (trial.state !== 'confirmed') process.exitCode = exitCodes.failed;
}

/** A script reads the exit code: something went wrong, some devices do not have it yet, or all is well. */
function leaveOpen(session: Session, trial: Trial, started: StartedTrial): void {
  const { enforcement } = trial;
  session.say(`Unless someone confirms it, the change is taken back ${endWords(trial, leftOf(started))}.`);
  session.say(`To keep it: ringfence trial confirm ${trial.id}`);
  session.say(`To take it back now: ringfence trial revert ${trial.id}`);
  const isBad = (trial.failing_tests ?? []).length > 0;
  const refused = enforcement && enforcement.failed + enforcement.reverted + enforcement.not_understood > 0;
  if (isBad || refused === true) process.exitCode = exitCodes.failed;
  else if (enforcement !== undefined && enforcement.in_force < enforcement.devices)
    process.exitCode = exitCodes.timeOver;
}

type Choice = 'keep' | 'revert' | 'wait' | 'over' | 'leave';

async function choose(session: Session, started: StartedTrial): Promise<Choice> {
  const { terminal, signal } = session;
  const end = AbortSignal.timeout(Math.max(0, Math.round(leftOf(started))));
  for (;;) {
    try {
      const answer = await terminal.question('Keep the change, revert it, or wait? [k/r/w] ', {
        signal: AbortSignal.any([signal, end]),
      });
      if (answer === undefined) return 'leave';
      if (/^(k|keep)$/i.test(answer)) return 'keep';
      if (/^(r|revert)$/i.test(answer)) return 'revert';
      if (/^(w|wait|)$/i.test(answer)) return 'wait';
    } catch (error) {
      if (signal.aborted || !end.aborted) throw error;
      terminal.note('');
      return 'over';
    }
  }
}

/** What the server may refuse when the change is kept, with the option that insists. */
const insistOptions: Readonly<Record<string, string>> = { would_open: '--detach', policy_test_failed: '--skip-tests' };

/** Someone else may have ended it, or its time was over: then that is how it ended. */
async function endTrial(session: Session, id: string, way: 'confirm' | 'revert'): Promise<Trial> {
  const client = await session.client();
  const organization = await session.organization();
  try {
    const trial = await client.trials[way](organization, id);
    session.noteWritten(trial.revision);
    return trial;
  } catch (error) {
    if (!(error instanceof RingfenceError)) throw error;
    if (error.code === 'trial_over') return readEnd(session, id);
    const option = insistOptions[error.code];
    if (option !== undefined)
      session.terminal.note(
        `The trial goes on. To keep the change all the same: ringfence trial confirm ${id} ${option}`,
      );
    throw error;
  }
}

async function readEnd(session: Session, id: string): Promise<Trial> {
  const client = await session.client();
  const organization = await session.organization();
  const until = performance.now() + revertMs;
  for (;;) {
    const trial = await client.trials.get(organization, id);
    if (trial.state !== 'pending' || performance.now() >= until) return trial;
    await setTimeout(pollMs, undefined, { signal: session.signal });
  }
}

export async function followTrial(session: Session): Promise<void> {
  const started = session.startedTrial;
  if (started === undefined) return;
  const { terminal, values } = session;
  const { wait } = values;
  const firstMs = wait === undefined || wait === true ? Math.min(firstWaitMs, leftOf(started) / 2) : readDuration(wait);
  const asks = terminal.isInteractive && values.yes !== true;
  const say = (line: string): void => (asks ? terminal.note(line) : session.say(line));
  const goesBack = `the server takes the change back ${endWords(started, leftOf(started))}, and so does each device that cannot reach the server`;
  say(`Trial ${started.id}: the change is in force until you decide.`);
  if (asks) say(`If you do nothing or close this terminal, ${goesBack}.`);
  try {
    for (
      let until = performance.now() + firstMs;
      ;
      until = performance.now() + Math.min(nextWaitMs, leftOf(started) / 2)
    ) {
      const trial = await followDevices(session, started, until);
      if (trial.state !== 'pending') return tellEnd(session, trial);
      for (const line of trialLines(trial, Date.now())) say(line);
      if (!asks) return leaveOpen(session, trial, started);
      if (hasTrouble(trial)) say('Look at this before you keep the change.');
      say(`It is taken back ${endWords(started, leftOf(started))}.`);
      const choice = await choose(session, started);
      if (choice === 'leave') return leaveOpen(session, trial, started);
      if (choice === 'keep') return tellEnd(session, await endTrial(session, started.id, 'confirm'));
      if (choice === 'revert') return tellEnd(session, await endTrial(session, started.id, 'revert'));
      if (choice === 'over') return tellEnd(session, await readEnd(session, started.id));
    }
  } catch (error) {
    if (session.signal.aborted) {
      terminal.note(`The trial goes on: ${goesBack}.`);
      terminal.note(`To keep it: ringfence trial confirm ${started.id}`);
    }
    throw error;
  }
}
