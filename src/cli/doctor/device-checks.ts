/** Owns the checks of a device: kernel, nft, agent, interface, rules, stream. */
import { stateOf } from '../../agent/options.ts';
import { readHost } from '../../agent/report/host-report.ts';
import { readInactiveAgent } from '../../agent/report/inactive-agent.ts';
import type { StatusDocument } from '../../agent/report/status-document.ts';
import { askStatus, NoAnswer } from '../../agent/report/status-socket.ts';
import { programVersion } from '../../node/version.ts';
import type { Session } from '../session/session.ts';
import { failed, ok, skipped, warning, type Check } from './check.ts';

/** Nothing where this machine has no agent, and never had one. */
export async function deviceChecks(session: Session, given: string | undefined): Promise<readonly Check[]> {
  const isRoot = process.geteuid?.() === 0;
  const state = stateOf(given === undefined ? {} : { state: given }, { env: session.terminal.env, isRoot });
  const { hasState, kernel, nft } = await readHost(state);
  if (!hasState) {
    return [skipped('agent', `this machine is not a device: ${state} does not exist`)];
  }
  const host = [
    ok('kernel', kernel),
    nft === undefined ? failed('nft', 'cannot be run', 'Install nftables; the agent needs it.') : ok('nft', nft),
  ];
  try {
    return [...host, ...runningChecks(await askStatus(state))];
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    if (error.code === 'not_permitted') {
      return [...host, skipped('agent', 'answers only root and its own user: run this command as root')];
    }
    if (error.code === 'failed') return [...host, failed('agent', `does not answer: ${error.message}`)];
    return [...host, ...(await inactiveChecks(state))];
  }
}

async function inactiveChecks(state: string): Promise<readonly Check[]> {
  const { kernel, interface: name } = await readInactiveAgent(state);
  const agent = failed('agent', `does not run with ${state}`, 'Start the agent: systemctl start ringfence-agent.');
  switch (kernel) {
    case 'enforced':
      return [agent, ok('rules', `the rules for ${name ?? 'its interface'} are still in force`)];
    case 'absent':
      return [agent, failed('rules', 'the kernel holds no rules: no policy is enforced')];
    case 'unreadable':
      return [agent, skipped('rules', 'cannot read the kernel: run this command as root')];
    default:
      return kernel satisfies never;
  }
}

export function runningChecks(status: StatusDocument): readonly Check[] {
  const { version, interface: link, stream, held, troubles, warnings } = status;
  return [
    version === programVersion
      ? ok('agent', `runs, version ${version}`)
      : warning(
          'agent',
          `runs version ${version}; this program is version ${programVersion}`,
          'Restart the agent after an upgrade.',
        ),
    link.name !== undefined && link.present
      ? ok('interface', link.name)
      : failed(
          'interface',
          `${link.wanted} does not exist`,
          'Bring the tunnel up. The rules apply as soon as the interface appears.',
        ),
    rules(status),
    stream.phase === 'live'
      ? ok('stream', `live, from ${status.server}`)
      : failed('stream', `${stream.phase}${stream.last_error === undefined ? '' : `: ${stream.last_error.message}`}`),
    ...(held === undefined ? [] : [failed('held', held)]),
    ...troubles.map(({ what, message, advice }) => failed('trouble', `${what}: ${message}`, advice)),
    ...warnings.map((text) => warning('warning', text)),
  ];
}

function rules({ policy: { origin, revision, pending } }: StatusDocument): Check {
  if (origin === 'none') return failed('rules', 'no rules are in force');
  if (origin === 'first') return warning('rules', 'no policy yet; inbound is closed');
  if (origin === 'lost') return warning('rules', 'the saved policy is lost; both directions are closed');
  if (pending) return warning('rules', 'the agent is writing a newer policy to the kernel');
  return ok('rules', revision === undefined ? 'in force' : `revision ${revision} is in force`);
}
