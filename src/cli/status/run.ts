/** Owns the fleet in one screen: how many devices have the policy in force, then the exceptions, the most urgent first. */
import type { Convergence } from '../../api/enforcement/convergence.ts';
import { countsLine, mostUrgent, renderExceptions } from '../session/in-force.ts';
import type { Session } from '../session/session.ts';
import { followInForce, isRefused } from '../session/wait.ts';
import { exitCodes, usageError } from '../terminal/exit.ts';

export interface StatusOptions {
  readonly revision?: string;
  readonly exitCode?: boolean;
  readonly wait?: string | true;
}

/** More than a screen holds nobody reads. */
const shownDevices = 40;

function readRevision(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,16}$/.test(text)) throw usageError(`\`${text}\` is not a revision: give a number`);
  return Number(text);
}

async function awaited(
  session: Session,
  revision: number,
  wait: string | true,
): Promise<{ readonly revision: number }> {
  await followInForce(session, revision, wait);
  return { revision };
}

export async function status(session: Session, options: StatusOptions): Promise<void> {
  const revision = readRevision(options.revision);
  const client = await session.client();
  const organization = await session.organization();
  const { signal } = session;
  const ask = (about: { readonly revision?: number }): Promise<Convergence> =>
    client.statuses.convergence(organization, { ...about, signal });
  const about = revision === undefined ? {} : { revision };
  const { wait } = options;
  // What is the newest now is waited for, not what is written meanwhile.
  const answer =
    wait === undefined ? await ask(about) : await ask(await awaited(session, (await ask(about)).revision, wait));
  const pending = mostUrgent(answer.pending);
  const [shown, more] = [pending.slice(0, shownDevices), pending.length - shownDevices];
  await session.print({
    data: answer,
    ids: pending.map(({ device_id }) => device_id),
    table: (layout) => {
      const { paint } = layout;
      const isEverywhere = pending.length === 0;
      const head = paint(isEverywhere ? 'green' : 'bold', `Revision ${answer.revision} is ${countsLine(answer)}.`);
      if (isEverywhere) return `${head}\n`;
      const rest = more > 0 ? `and ${more} more: ringfence device list --state offline, or -o json\n` : '';
      return `${head}\n\n${renderExceptions(shown, Date.now(), layout)}${rest}`;
    },
  });
  if (pending.length === 0) return;
  if (wait !== undefined) process.exitCode = isRefused(answer) ? exitCodes.failed : exitCodes.timeOver;
  else if (options.exitCode === true) process.exitCode = exitCodes.failed;
}
