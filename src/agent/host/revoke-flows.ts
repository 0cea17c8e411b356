/**
 * Owns the revocation of connections that a new policy no longer admits: it ends them on the driver interface,
 * permanently.
 */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import type { FarEnd, FlowTable } from './flow-table.ts';
import { judgedFlow, localFlows, revocationJudge, type Flow, type LocalFlow } from './flows.ts';
import { BatchQueue } from './batch-queue.ts';
import type { RoutedInterface, RouteTable, RouteLookup } from './route-table.ts';

export interface Revocation {
  readonly interface: string;
  /** Connections may stand on any of these. */
  readonly before: readonly CanonicalPolicy[];
  readonly after: CanonicalPolicy;
  /** The agent's own connections stay, whatever the policy says of them. */
  readonly serverAccess?: ServerAccess | undefined;
  /** Whether connections that the device translates for others end too. Default: `guard`, they do. */
  readonly containers?: 'guard' | 'ignore';
  /** The only far ends that may have lost anything, where that is known: spares looking at the others. */
  readonly remotes?: readonly FarEnd[] | undefined;
  /** Whether TCP connections are looked at too that the kernel does not track: of those there are when tracking begins. */
  readonly untracked?: boolean;
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
  /** From then on the kernel drops the packets of these connections, in both directions. `sockets`: whether those of this device are gone. */
  readonly block: (flows: readonly LocalFlow[], sockets: 'ended' | 'unknown') => Promise<void>;
}

/**
 * Ends every connection over the interface that an old policy admitted and the new one does not. The new rules are
 * already in force. First the agent closes the local sockets, so that the far end notices. Then the kernel drops all
 * further packets of the connection from both sides: otherwise a side that keeps sending would have it tracked again,
 * in the direction that is open. At last the kernel forgets the connection. The first connections end while the others
 * are still being listed, because the kernel walks its whole table for a listing.
 */
export async function revokeFlows({ routes, table, block }: RevocationPorts, revocation: Revocation): Promise<Revoked> {
  const { interface: name, before, after, serverAccess, containers = 'guard', remotes, untracked = false } = revocation;
  const { addresses, interface: routed } = await routes.readLocal(name);
  const isLocal = (address: string): boolean => addresses.has(address);
  const isOver = interfaceFinder(routes, addresses, routed);
  let [count, trouble]: [number, string | undefined] = [0, undefined];
  const end = async (candidates: readonly LocalFlow[]): Promise<void> => {
    const over = await isOver(candidates);
    const revoked = candidates.filter(over);
    if (revoked.length === 0) return;
    const unaborted = await table.abort(revoked, routed.index);
    trouble = unaborted ?? trouble;
    await block(revoked, unaborted === undefined ? 'ended' : 'unknown');
    await table.forget([...new Set(revoked.map(({ flow }) => flow))]);
    count += revoked.length;
  };
  const isRevoked = revocationJudge(before, after, { serverAccess, containers });
  const revokedOf = (flow: Flow): readonly LocalFlow[] => {
    if (flow.master === undefined) return localFlows(flow, isLocal).filter(isRevoked);
    return localFlows(judgedFlow(flow), isLocal).some(isRevoked) ? localFlows(flow, isLocal) : [];
  };
  const endListed = async (list: (visit: (part: readonly Flow[]) => void) => Promise<void>): Promise<void> => {
    const ending = new BatchQueue<LocalFlow>(end, { least: together });
    try {
      await list((part) => ending.add(part.flatMap(revokedOf)));
    } finally {
      await ending.done();
    }
  };
  await endListed((visit) => table.list(remotes, visit));
  // Sockets of the connections that were just ended are gone by now.
  if (untracked) await endListed((visit) => table.listSockets(visit));
  return { count, ...(trouble === undefined ? {} : { trouble }) };
}

/** The first connections end at once. The others end in large parts, because each part waits several times for the kernel. */
const together = 1_024;

/**
 * Finds out which connections use the interface. conntrack does not report that, so the routes decide, with one lookup
 * per pair of ends.
 */
export function interfaceFinder(
  routes: RouteTable,
  addresses: ReadonlyMap<string, boolean>,
  routed: RoutedInterface,
): (flows: readonly LocalFlow[]) => Promise<(flow: LocalFlow) => boolean> {
  const wayOf = routeLookups(addresses);
  const known = new Map<RouteLookup, boolean>();
  return async (flows) => {
    const ways = [...new Set(flows.map(wayOf))].filter((way) => !known.has(way));
    const over = ways.length === 0 ? new Set() : await routes.over(routed, ways);
    for (const way of ways) known.set(way, over.has(way));
    return (flow) =>
      known.get(wayOf(flow)) === true || (addresses.get(flow.local) === true && isLinkLocal(flow.remote));
  };
}

/** The same way for all connections between the same ends. */
function routeLookups(addresses: ReadonlyMap<string, boolean>): (flow: LocalFlow) => RouteLookup {
  const ways = new Map<string, RouteLookup>();
  return ({ local, remote }) => {
    // Without an address of ours at its near end, only the far end selects the route.
    const way = addresses.has(local) ? { remote, local } : { remote };
    const key = `${remote} ${way.local ?? ''}`;
    const known = ways.get(key);
    if (known !== undefined) return known;
    ways.set(key, way);
    return way;
  };
}

const isLinkLocal = (address: string): boolean => /^fe[89ab][0-9a-f]:/i.test(address);
