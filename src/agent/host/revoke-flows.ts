/** Owns the end of connections that a change of policy no longer admits: on the driver interface, and for good. */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import type { FlowTable } from './flow-table.ts';
import { isRevoked, localFlows, type LocalFlow } from './flows.ts';
import type { Run } from './run-command.ts';

export interface Revocation {
  readonly interface: string;
  /** Connections may stand on any of these. */
  readonly before: readonly CanonicalPolicy[];
  readonly after: CanonicalPolicy;
  /** The agent's own connections stay, whatever the policy says of them. */
  readonly serverAccess?: ServerAccess | undefined;
  /** Whether connections that the device translates for others end too; they do unless told. */
  readonly containers?: 'guard' | 'ignore';
  /** The only far ends that may have lost anything, where that is known: spares looking at the others. */
  readonly remotes?: readonly string[] | undefined;
}

export interface Revoked {
  /** Connections that were ended. */
  readonly count: number;
  /** What could not be done, for a person. */
  readonly trouble?: string;
}

export interface RevocationPorts {
  readonly run: Run;
  readonly table: FlowTable;
}

/**
 * Ends every connection over the interface that an old policy admitted and the new one does not. The new rules are in
 * force already. Local sockets go first: a socket that still sends would have the connection tracked again, from this
 * side. Then the kernel forgets the connection, and what still comes of it is new, and judged by the rules.
 */
export async function revokeFlows({ run, table }: RevocationPorts, revocation: Revocation): Promise<Revoked> {
  const { interface: name, before, after, serverAccess, containers = 'guard', remotes } = revocation;
  const [{ addresses, index }, flows] = await Promise.all([localAddresses(run, name), table.list(remotes)]);
  const candidates = flows
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
  const trouble = await table.abort(revoked, index);
  const ended = new Set(revoked.map(({ flow }) => flow));
  await table.forget(
    [...ended],
    flows.filter((flow) => !ended.has(flow)),
  );
  return { count: revoked.length, ...(trouble === undefined ? {} : { trouble }) };
}

interface LocalAddresses {
  /** Every address of this device, with the interface that it is on. */
  readonly addresses: ReadonlyMap<string, string>;
  /** The number of the driver interface; 0 where it is not there. */
  readonly index: number;
}

async function localAddresses(run: Run, driver: string): Promise<LocalAddresses> {
  const { stdout } = await run(['ip', '-j', 'address', 'show']);
  const links = JSON.parse(stdout.trim() === '' ? '[]' : stdout) as readonly {
    readonly ifindex?: number;
    readonly ifname?: string;
    readonly addr_info?: readonly { readonly local?: string }[];
  }[];
  const addresses = new Map(
    links.flatMap(({ ifname, addr_info }) =>
      (addr_info ?? []).flatMap(({ local }) => (local === undefined ? [] : [[local, ifname ?? ''] as const])),
    ),
  );
  return { addresses, index: links.find(({ ifname }) => ifname === driver)?.ifindex ?? 0 };
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
