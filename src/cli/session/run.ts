/** Owns the running of a client command, from its options to its exit code. */
import { RingfenceError } from '../../client/error.ts';
import { commandExitOf, exitCodes } from '../terminal/exit.ts';
import { printable } from '../../policy/names/printable.ts';
import { dryRunLines } from './dry-run.ts';
import { Session, type GlobalValues } from './session.ts';
import { Terminal } from '../terminal/terminal.ts';
import { endWords } from './trial-words.ts';

/** Whose trial a write was refused for, and until when; empty where that cannot be read any more. */
async function trialInTheWay(session: Session, error: unknown): Promise<readonly string[]> {
  if (!(error instanceof RingfenceError) || error.trialId === undefined) return [];
  try {
    const [client, organization] = [await session.client(), await session.organization()];
    const [trial, members] = await Promise.all([
      client.trials.get(organization, error.trialId),
      client.members.list(organization),
    ]);
    const by = members.find(({ user_id }) => user_id === trial.by)?.username ?? 'a former member';
    const left = Date.parse(trial.ends_at) - Date.now();
    return [printable(`  ${by} is trying it, and it is taken back ${endWords(trial, left)} unless confirmed`)];
  } catch {
    return [];
  }
}

/** What Ctrl-C makes of a command in flight. */
class Interrupted extends Error {}

/** Runs, and sets the exit code. A second Ctrl-C does not wait for anything. */
export async function runAction(values: GlobalValues, work: (session: Session) => Promise<void>): Promise<void> {
  const { env } = process;
  const terminal = new Terminal({ env, colour: values.color });
  const stop = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(exitCodes.interrupted);
    stop.abort(new Interrupted());
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  // The reader of our output may close the pipe early (`| head`): that is not a failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(exitCodes.done);
    throw error;
  });
  const session = new Session({ values, terminal, signal: stop.signal });
  try {
    await work(session);
  } catch (error) {
    await session.settled();
    // Pending work, such as a pipe that stays open, must not delay the exit.
    if (stop.signal.aborted) process.exit(exitCodes.interrupted);
    const planned = values.dryRun === true ? dryRunLines(error) : undefined;
    if (planned !== undefined) {
      for (const line of planned) terminal.note(printable(line));
      return;
    }
    const { code, lines } = commandExitOf(error, { debug: (env['RINGFENCE_DEBUG'] ?? '') !== '' });
    const [first = '', ...rest] = lines;
    terminal.note(`${terminal.paintError('red', 'ringfence:')} ${first}`);
    for (const line of [...(await trialInTheWay(session, error)), ...rest]) terminal.note(line);
    process.exitCode = code;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}
