/** Owns the end of connections that a change of policy no longer admits: on the driver interface, and for good. */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import { isRevoked, localFlows, parseFlows, type Flow, type LocalFlow } from './flows.ts';
import { CannotRun, type Run } from './run-command.ts';

export interface Revocation {
  readonly interface: string;
  readonly before: CanonicalPolicy;
  readonly after: CanonicalPolicy;
  /** The agent's own connections stay, whatever the policy says of them. */
  readonly serverAccess?: ServerAccess | undefined;
  /** Whether connections that the device translates for others end too; they do unless told. */
  readonly containers?: 'guard' | 'ignore';
}

export interface Revoked {
  /** Connections that were ended. */
  readonly count: number;
  /** What could not be done, for a person. */
  readonly trouble?: string;
}

/** conntrack ends so when there was nothing to delete: a connection may have ended by itself meanwhile. */
const nothingDeleted = 1;

/**
 * Ends every connection over the interface that the old policy admitted and the new one does not. The new rules are in
 * force already. Local sockets go first: a socket that still sends would have the connection tracked again, from this
 * side. Then the kernel forgets the connection, and what still comes of it is new, and judged by the rules.
 */
export async function revokeFlows(run: Run, revocation: Revocation): Promise<Revoked> {
  const { interface: name, before, after, serverAccess, containers = 'guard' } = revocation;
  const addresses = await localAddresses(run);
  const candidates = (await listFlows(run))
    .flatMap((flow) => localFlows(flow, (address) => addresses.has(address)))
    .filter((flow) => isRevoked(flow, before, after, { serverAccess, containers }));
  if (candidates.length === 0) return { count: 0 };
  // The way of a connection that never was an address of ours is told by its far end alone.
  const wayOf = ({ local, remote }: LocalFlow): string => (addresses.has(local) ? `${remote} from ${local}` : remote);
  const ways = await interfacesOf(run, [...new Set(candidates.map(wayOf))]);
  const revoked = candidates.filter(
    (flow) => ways.get(wayOf(flow)) === name || (addresses.get(flow.local) === name && isLinkLocal(flow.remote)),
  );
  if (revoked.length === 0) return { count: 0 };
  const trouble = await endSockets(run, revoked);
  await forget(run, revoked);
  return { count: revoked.length, ...(trouble === undefined ? {} : { trouble }) };
}

async function listFlows(run: Run): Promise<readonly Flow[]> {
  const { code, stdout, stderr } = await run(['conntrack', '-L']);
  if (code !== 0) throw new CannotRun(`conntrack does not list connections: ${firstLine(stderr)}`);
  return parseFlows(stdout);
}

/** Every address of this device, with the interface that it is on. */
async function localAddresses(run: Run): Promise<ReadonlyMap<string, string>> {
  const { stdout } = await run(['ip', '-j', 'address', 'show']);
  const links = JSON.parse(stdout.trim() === '' ? '[]' : stdout) as readonly {
    readonly ifname?: string;
    readonly addr_info?: readonly { readonly local?: string }[];
  }[];
  return new Map(
    links.flatMap(({ ifname, addr_info }) =>
      (addr_info ?? []).flatMap(({ local }) => (local === undefined ? [] : [[local, ifname ?? ''] as const])),
    ),
  );
}

const isLinkLocal = (address: string): boolean => /^fe[89ab][0-9a-f]:/i.test(address);

/** conntrack does not tell the interface of a connection; the routes do. */
async function interfacesOf(run: Run, ways: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  // A way without a route ends a batch of ip early, and its answers would no longer be told apart; so one by one then.
  const { code, stdout } = await run(['ip', '-o', '-batch', '-'], ways.map((way) => `route get ${way}\n`).join(''));
  const answers = stdout.split('\n').filter((line) => line !== '');
  if (code === 0 && answers.length === ways.length) {
    for (const [i, way] of ways.entries()) note(found, way, answers[i] ?? '');
    return found;
  }
  for (const way of ways) note(found, way, (await run(['ip', '-o', 'route', 'get', ...way.split(' ')])).stdout);
  return found;
}

function note(found: Map<string, string>, way: string, answer: string): void {
  const name = /(?:^|\s)dev (\S+)/.exec(answer)?.[1];
  if (name !== undefined) found.set(way, name);
}

/** Filters that one call of ss takes together. */
const together = 50;

/** Aborts the local sockets of TCP connections. Answers with what went wrong. */
async function endSockets(run: Run, flows: readonly LocalFlow[]): Promise<string | undefined> {
  const filters = flows
    .filter(({ flow, forwarded }) => flow.protocol === 6 && forwarded === undefined)
    .map(socketFilter);
  for (let at = 0; at < filters.length; at += together) {
    const filter = filters.slice(at, at + together).join(' or ');
    try {
      const { code, stderr } = await run(['ss', '--kill', '--tcp', '--numeric', '--no-header', filter]);
      if (code !== 0) return `a revoked connection may come back: ss cannot end its socket: ${firstLine(stderr)}`;
    } catch (error) {
      if (!(error instanceof CannotRun)) throw error;
      return `a revoked connection may come back: ${error.message}`;
    }
  }
  return undefined;
}

function socketFilter({ flow: { original, reply }, direction, local, remote }: LocalFlow): string {
  const [here, there] = direction === 'inbound' ? [reply.sport, original.sport] : [original.sport, reply.sport];
  return `( src ${inSs(local)} and sport = ${here} and dst ${inSs(remote)} and dport = ${there} )`;
}

const inSs = (address: string): string => (address.includes(':') ? `[${address}]` : address);

async function forget(run: Run, flows: readonly LocalFlow[]): Promise<void> {
  const lines = flows.map(({ flow: { family, protocol, original, icmp } }) =>
    [
      `-D -f ipv${family} -p ${protocol} -s ${original.src} -d ${original.dst}`,
      ...(protocol === 6 || protocol === 17 ? [`--sport ${original.sport} --dport ${original.dport}`] : []),
      ...(icmp === undefined ? [] : [`--icmp${family === 6 ? 'v6' : ''}-id ${icmp.id}`]),
    ].join(' '),
  );
  // conntrack opens its input anew, which only a true pipe allows.
  const { code, stderr } = await run(
    ['sh', '-c', 'cat | conntrack --load-file -'],
    lines.map((line) => `${line}\n`).join(''),
  );
  if (code !== 0 && code !== nothingDeleted)
    throw new CannotRun(`conntrack does not forget connections: ${firstLine(stderr)}`);
}

const firstLine = (text: string): string => text.trim().split('\n')[0]?.slice(0, 200) ?? '';
