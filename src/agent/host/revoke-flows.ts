/** Owns the end of connections that a change of policy no longer admits: on the driver interface, and for good. */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import type { FarEnd, FlowTable } from './flow-table.ts';
import { isRevoked, localFlows, type LocalFlow } from './flows.ts';
import type { RouteTable, Way } from './route-table.ts';

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
  readonly remotes?: readonly FarEnd[] | undefined;
}

export interface Revoked {
  /** Connections that were ended. */
  readonly count: number;
  /** What could not be done, for a person. */
  readonly trouble?: string;
}

export interface RevocationPorts {
  readonly routes: RouteTable;
  readonly table: FlowTable;
}

/**
 * Ends every connection over the interface that an old policy admitted and the new one does not. The new rules are in
 * force already. Local sockets go first: a socket that still sends would have the connection tracked again, from this
 * side. Then the kernel forgets the connection, and what still comes of it is new, and judged by the rules.
 */
export async function revokeFlows({ routes, table }: RevocationPorts, revocation: Revocation): Promise<Revoked> {
  const { interface: name, before, after, serverAccess, containers = 'guard', remotes } = revocation;
  const [{ addresses, interface: routed }, flows] = await Promise.all([routes.readLocal(name), table.list(remotes)]);
  const candidates = flows
    .flatMap((flow) => localFlows(flow, (address) => addresses.has(address)))
    .filter((flow) => isRevoked(flow, before, after, { serverAccess, containers }));
  if (candidates.length === 0) return { count: 0 };
  // conntrack does not tell the interface of a connection; the routes do.
  const wayOf = wayFinder(addresses);
  const over = await routes.over(routed, [...new Set(candidates.map(wayOf))]);
  const revoked = candidates.filter(
    (flow) => over.has(wayOf(flow)) || (addresses.get(flow.local) === true && isLinkLocal(flow.remote)),
  );
  if (revoked.length === 0) return { count: 0 };
  const trouble = await table.abort(revoked, routed.index);
  const ended = new Set(revoked.map(({ flow }) => flow));
  await table.forget(
    [...ended],
    flows.filter((flow) => !ended.has(flow)),
  );
  return { count: revoked.length, ...(trouble === undefined ? {} : { trouble }) };
}

/** The same way for all connections between the same ends. */
function wayFinder(addresses: ReadonlyMap<string, boolean>): (flow: LocalFlow) => Way {
  const ways = new Map<string, Way>();
  return ({ local, remote }) => {
    // The way of a connection that never was an address of ours is told by its far end alone.
    const way = addresses.has(local) ? { remote, local } : { remote };
    const key = `${remote} ${way.local ?? ''}`;
    const known = ways.get(key);
    if (known !== undefined) return known;
    ways.set(key, way);
    return way;
  };
}

const isLinkLocal = (address: string): boolean => /^fe[89ab][0-9a-f]:/i.test(address);
