/** Owns the output of `ringfence agent status`. */
import { stateOf } from '../../agent/options.ts';
import { askStatus, NoAnswer } from '../../agent/report/status-socket.ts';
import { readInactiveAgent, type InactiveAgent } from '../../agent/report/inactive-agent.ts';
import type { StatusDocument } from '../../agent/report/status-document.ts';
import { CliError, exitCodes } from '../terminal/exit.ts';
import { runAction } from '../session/run.ts';
import type { GlobalValues, Session } from '../session/session.ts';
import { renderFields, type Layout } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import { count, enforcementFields } from './enforcement.ts';

export const runStatus = (values: GlobalValues, given: string | undefined): Promise<void> =>
  runAction(values, (session) => showStatus(session, given));

async function showStatus(session: Session, given: string | undefined): Promise<void> {
  const isRoot = process.geteuid?.() === 0;
  const state = stateOf(given === undefined ? {} : { state: given }, { env: session.terminal.env, isRoot });
  try {
    const status = await askStatus(state);
    await session.print({
      data: status,
      ids: status.device === undefined ? [] : [status.device],
      table: statusTable(status),
    });
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    if (error.code === 'not_permitted') {
      throw new CliError('notAllowed', `the agent in ${state} answers only root and its own user`);
    }
    if (error.code === 'failed')
      throw new CliError('failed', `the agent in ${state} does not answer: ${error.message}`);
    const inactive = await readInactiveAgent(state);
    await session.print({ data: inactive, ids: [], table: inactiveTable(inactive) });
    process.exitCode = exitCodes.failed;
  }
}

function policyLine({ policy, held }: StatusDocument): string {
  const { origin, source, revision } = policy;
  switch (origin) {
    case 'server':
    case 'kept': {
      const which = source === 'default' ? "the organization's default group" : "the device's own groups";
      const kept = origin === 'kept' ? ', saved by the last run' : '';
      const waiting = held !== undefined ? ', held' : policy.pending ? ', a newer one is pending' : '';
      return `revision ${revision}: ${which}${kept}${waiting}`;
    }
    case 'kernel':
      return 'not known; the rules that the kernel held at the start stay in force';
    case 'first':
      return 'not known yet; inbound is closed';
    case 'lost':
      return 'lost; both directions are closed until the server sends it again';
    case 'none':
      return 'none';
    default:
      return origin satisfies never;
  }
}

/** What is wrong or missing first, by the words that the server and the web UI have for it. */
export const statusTable =
  (status: StatusDocument) =>
  (layout: Layout): string => {
    const { policy, stream, interface: link, drift } = status;
    const interfaceLine = [
      link.name ?? `no interface matches ${link.wanted} yet`,
      ...(link.name !== undefined && !link.present ? ['(does not exist; the rules apply as soon as it appears)'] : []),
      ...(link.master === undefined ? [] : [`(a member of ${link.master}, which receives its traffic)`]),
    ].join(' ');
    return renderFields(
      [
        ...enforcementFields(status),
        ...(status.warnings.length === 0 ? [] : ([['warning', status.warnings]] as const)),
        ['agent', `pid ${status.pid}, version ${status.version}, since ${shortTime(status.started_at)}`],
        ['device', `${status.device ?? 'not enrolled yet'} in organization ${status.organization}`],
        ['interface', interfaceLine],
        ['policy', policyLine(status)],
        ...(policy.groups.length === 0
          ? []
          : ([
              [
                'groups',
                policy.groups.map(
                  (group) =>
                    `${group.name} (${count(group.inbound_rules, 'rule')} in, ${group.outbound_rules} out)  ${group.id}`,
                ),
              ],
            ] as const)),
        ...(policy.guardrails === undefined
          ? []
          : ([
              [
                'guardrails',
                policy.guardrails.map(
                  (group) =>
                    `${group.name} (${group.guardrail}; ${count(group.inbound_rules, 'rule')} in, ${group.outbound_rules} out)  ${group.id}`,
                ),
              ],
            ] as const)),
        ...(policy.peers === undefined
          ? []
          : ([
              [
                'peers',
                `${count(policy.peers.addresses, 'address', 'addresses')} of ${count(policy.peers.named, 'peer')}`,
              ],
            ] as const)),
        ...(policy.verified_at === undefined ? [] : ([['verified', shortTime(policy.verified_at)]] as const)),
        ['stream', streamLine(status)],
        ['server access', accessLine(status)],
        ['containers', containersLine(status)],
        ['drift', driftLine(drift)],
        ['revoked', revokedLine(status)],
        ['packets', directions.map((direction) => packetsLine(status, direction))],
        ...(status.last_error === undefined || status.troubles.length > 0
          ? []
          : ([
              [
                'last error',
                `${status.last_error.what}: ${status.last_error.message} (${shortTime(status.last_error.at)})`,
              ],
            ] as const)),
        ...(stream.last_error === undefined || stream.phase !== 'live'
          ? []
          : ([['last break', `${stream.last_error.message} (${shortTime(stream.last_error.at)})`]] as const)),
      ],
      layout,
    );
  };

const directions = ['inbound', 'outbound'] as const;

/** What passed in one direction and why, and what did not. */
function packetsLine({ packets, policy }: StatusDocument, direction: (typeof directions)[number]): string {
  const way = direction === 'inbound' ? 'in' : 'out';
  const reasons = packets[direction];
  if (reasons === undefined) return `${way}: all traffic passes, and the agent does not count it`;
  const admitted = policy.groups.map(
    (group) => `${group[`admitted_${direction}`]?.packets ?? 0} admitted by ${group.name}`,
  );
  const { established, discovery, server, refused } = reasons;
  const neighbours = discovery.packets > 0 ? [`${discovery.packets} of neighbour discovery`] : [];
  const access = server.packets > 0 ? [`${server.packets} between the agent and its server`] : [];
  const parts = [
    ...admitted,
    `${established.packets} of established connections`,
    ...neighbours,
    ...access,
    `${refused.packets} refused`,
  ];
  return `${way}: ${parts.join(', ')}`;
}

/** If the stream is not live, the lines above give the reason. */
const streamLine = ({ stream, server }: StatusDocument): string =>
  `${stream.phase} since ${shortTime(stream.since)}, from ${server}`;

function accessLine({ server_access: access }: StatusDocument): string {
  if (access === undefined) return 'the rules apply to it as to all other traffic';
  const { addresses, port, resolvers } = access;
  const where = addresses.length === 0 ? 'not through the interface yet' : `${addresses.join(', ')} port ${port}`;
  return resolvers.length === 0 ? where : `${where}, and port 53 of ${resolvers.join(', ')}`;
}

function containersLine({ containers: { mode, forwarding } }: StatusDocument): string {
  if (mode === 'ignore') return 'ignored: the rules do not apply to traffic that is redirected or translated for them';
  return forwarding === false
    ? 'guarded; this device does not forward traffic now'
    : 'guarded: the rules also apply to traffic that is redirected or translated for them';
}

/** An agent of an earlier version does not tell how many are kept ended: then none is more than zero. */
function revokedLine({ revoked_connections: revoked, ended_connections: ended }: StatusDocument): string {
  return `${count(revoked, 'connection')}${ended > 0 ? `, ${ended} kept ended` : ''}`;
}

function driftLine({ repaired, last }: StatusDocument['drift']): string {
  const times = count(repaired, 'repair');
  return last === undefined
    ? times
    : `${times}, the last at ${shortTime(last.at)} after ${last.by}: ${last.what.join('; ')}`;
}

const kernelLine = ({ kernel, interface: name }: InactiveAgent): string => {
  switch (kernel) {
    case 'enforced':
      return name === undefined ? 'a table is in place' : `the rules for ${name} are still in force`;
    case 'absent':
      return 'holds no rules: no policy is enforced';
    case 'unreadable':
      return 'cannot be read (try as root)';
    default:
      return kernel satisfies never;
  }
};

const inactiveTable =
  (inactive: InactiveAgent) =>
  (layout: Layout): string => {
    const { kept, damaged, state } = inactive;
    const keptLine =
      kept === undefined
        ? `no policy${damaged === undefined ? '' : `: ${damaged}`}`
        : `revision ${kept.revision} for ${kept.interface}: ${kept.groups.join(', ')}`;
    return renderFields(
      [
        ['agent', `not running with ${state}`],
        ['kernel', kernelLine(inactive)],
        ['kept', keptLine],
      ],
      layout,
    );
  };
