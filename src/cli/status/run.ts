/**
 * Owns the fleet's state in one screen: how many devices have the policy in force, then the exceptions, the most urgent
 * first.
 */
import type { Convergence } from '../../api/enforcement/convergence.ts';
import { allDevices, isolatedLines } from '../lookup/device.ts';
import { adviceLines, countsLine, mostUrgent, renderExceptions } from '../session/in-force.ts';
import type { Session } from '../session/session.ts';
import { trialLine } from '../session/trial-words.ts';
import { deadlineOf, followInForce, followJoining, isRefused } from '../session/wait.ts';
import { failureInWords } from '../../policy/policy-test/words.ts';
import { exitCodes, usageError } from '../terminal/exit.ts';

export interface StatusOptions {
  readonly revision?: string;
  readonly exitCode?: boolean;
  readonly wait?: string | true;
  readonly devices?: string;
}

/** The most devices that are listed: about one screen. */
const shownDevices = 40;

function readRevision(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,16}$/.test(text)) throw usageError(`\`${text}\` is not a revision: give a number`);
  return Number(text);
}

function readDevices({ devices, wait }: StatusOptions): number {
  if (devices === undefined) return 0;
  if (!/^\d{1,9}$/.test(devices)) throw usageError(`\`${devices}\` is not a number of devices`);
  if (wait === undefined) throw usageError('--devices needs --wait');
  return Number(devices);
}

export async function status(session: Session, options: StatusOptions): Promise<void> {
  const revision = readRevision(options.revision);
  const client = await session.client();
  const organization = await session.organization();
  const ask = (about: { readonly revision?: number }): Promise<Convergence> =>
    client.statuses.convergence(organization, about);
  const about = revision === undefined ? {} : { revision };
  const { wait } = options;
  const wanted = readDevices(options);
  const waitedFor = async (until: number): Promise<Convergence> => {
    if (wanted > 0) await followJoining(session, wanted, until);
    // What is the newest now is waited for, not what is written meanwhile.
    const newest = await ask(about);
    const { revision: awaited } = newest;
    await followInForce(session, { organization_id: organization, revision: awaited }, { until, waitFor: 'all' });
    return ask({ revision: awaited });
  };
  const answer = wait === undefined ? await ask(about) : await waitedFor(deadlineOf(wait));
  const [trials, tests, devices] = await Promise.all([
    client.trials.list(organization),
    client.policyTests.list(organization),
    allDevices(session),
  ]);
  const isolated = devices.filter((device) => device.isolated !== undefined);
  const failing = tests.filter(({ state }) => state === 'failing');
  const pending = mostUrgent(answer.pending);
  const [shown, hidden] = [pending.slice(0, shownDevices), pending.length - shownDevices];
  await session.print({
    data: {
      ...answer,
      isolated: isolated.map(({ id, hostname, isolated: isolation }) => ({ device_id: id, hostname, ...isolation })),
      trials,
      failing_tests: failing,
    },
    ids: pending.map(({ device_id }) => device_id),
    table: (layout) => {
      const { paint } = layout;
      const isEverywhere = pending.length === 0;
      const head = paint(isEverywhere ? 'green' : 'bold', `Revision ${answer.revision} is ${countsLine(answer)}.`);
      const cut = isolatedLines(isolated).map((line) => `${paint('red', line)}\n`);
      const open = trials.map((trial) => `${paint('yellow', trialLine(trial, Date.now()))}\n`);
      const broken = failing.map(
        (test) =>
          `${paint('red', `Policy test ${test.name} ${test.until === undefined ? 'fails' : 'will fail'}`)}${test.failure ? `: ${failureInWords(test, test.failure)}` : ''}\n`,
      );
      const more = [...cut, ...open, ...broken].join('');
      if (isEverywhere) return `${head}\n${more}`;
      const next = pending[shownDevices]?.in_force;
      const rest = next === undefined ? '' : `and ${hidden} more: ringfence device list --state ${next}, or -o json\n`;
      const advice = layout.headers ? adviceLines(pending).map((line) => `${paint('dim', line)}\n`) : [];
      return `${head}\n${more}\n${renderExceptions(shown, Date.now(), layout)}${rest}\n${advice.join('')}`;
    },
  });
  if (pending.length === 0 && answer.devices >= wanted) return;
  if (wait !== undefined) process.exitCode = isRefused(answer) ? exitCodes.failed : exitCodes.timeOver;
  else if (options.exitCode === true) process.exitCode = exitCodes.failed;
}
