/** Owns the command `ringfence agent`: it runs the agent or removes its rules, and reports a failure in one line. */
import { readFile } from 'node:fs/promises';
import { systemClock } from '../client/clock.ts';
import { printable } from '../policy/names/printable.ts';
import { agentConfig, keyOf, organizationOf, WrongOptions, type AgentConfig } from './config.ts';
import { runAgent } from './run-agent.ts';
import { knownDestination } from './destination.ts';
import { Locked } from '../node/lock.ts';
import { SharedFolder } from './host/private-folder.ts';
import { Enforcer } from './kernel/enforcer.ts';
import { NftError } from './kernel/nft.ts';
import { RealNft } from './kernel/real-nft.ts';
import { CannotStart, lockState } from './locks.ts';
import { stateOf, type AgentValues, type OptionSurroundings } from './options.ts';
import { IdentityFolder } from './source/identity.ts';
import { ForeignIdentity } from './source/machine-check.ts';

/** Exit codes (reference 10 (4)). The unit does not start again after 2: that would not mend it. */
const done = 0;
const failed = 1;
const wrongUsage = 2;

/** Failures that the operator can mend: one line, without a stack. */
const isExpected = (error: unknown): error is Error =>
  error instanceof WrongOptions ||
  error instanceof ForeignIdentity ||
  error instanceof Locked ||
  error instanceof NftError ||
  error instanceof SharedFolder ||
  error instanceof CannotStart;

/** The command: runs until it is asked to stop; gives the exit code. */
export async function runAgentCommand(values: AgentValues, { version }: { readonly version: string }): Promise<number> {
  const around: OptionSurroundings = { env: process.env, isRoot: process.geteuid?.() === 0 };
  const stop = stopSignal();
  try {
    await checkDescriptors();
    if (values.remove === true) await removeTable(stateOf(values, around));
    else await runAgent(await fullConfig(values, around), { version, signal: stop.signal });
    return done;
  } catch (error) {
    if (!isExpected(error)) throw error;
    process.stderr.write(`ringfence: ${printable(error.message)}\n`);
    return error instanceof WrongOptions || error instanceof ForeignIdentity ? wrongUsage : failed;
  } finally {
    stop.forget();
  }
}

async function fullConfig(values: AgentValues, around: OptionSurroundings): Promise<AgentConfig> {
  // A device with a token of its own takes nothing from an earlier enrollment.
  if (values.device !== undefined) return agentConfig(values, around);
  const folder = new IdentityFolder(stateOf(values, around));
  return agentConfig(values, around, await knownDestination(keyOf(values), folder, organizationOf(values, around)));
}

/** Helper programs, the stream, locks and files need some descriptors each. With too few, whatever comes first fails in a way of its own. */
const leastDescriptors = 64;

async function checkDescriptors(): Promise<void> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const soft = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? leastDescriptors);
  if (soft >= leastDescriptors) return;
  throw new CannotStart(
    `the limit of open files is ${soft}: the agent needs ${leastDescriptors} (ulimit -n, or LimitNOFILE= of its unit)`,
  );
}

async function removeTable(state: string): Promise<void> {
  const lock = await lockState(state);
  const nft = new RealNft({ clock: systemClock, scratch: state });
  try {
    await new Enforcer({ nft, random: Math.random }).remove();
    process.stdout.write(
      'The tables inet service, inet service-forward and inet service-ended are removed. This device no longer enforces a policy.\n',
    );
  } finally {
    await nft.close();
    await lock.release();
  }
}

/** The first signal asks; the second ends at once. */
function stopSignal(): { readonly signal: AbortSignal; forget(): void } {
  const abort = new AbortController();
  const heard = (): void => {
    if (abort.signal.aborted) process.exit(failed);
    abort.abort();
  };
  process.on('SIGTERM', heard);
  process.on('SIGINT', heard);
  return {
    signal: abort.signal,
    forget: () => {
      process.off('SIGTERM', heard);
      process.off('SIGINT', heard);
    },
  };
}
