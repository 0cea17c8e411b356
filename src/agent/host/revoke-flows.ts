/**
 * Owns the revocation of connections that a new policy no longer admits: they end on the driver interface, permanently,
 * and nowhere else.
 */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import type { FarEnd, FlowTable } from './flow-table.ts';
import { judgedFlow, localFlows, revocationJudge, type Flow, type LocalFlow } from './flows.ts';
import { BatchQueue } from './batch-queue.ts';
import type { RouteTable } from './route-table.ts';

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
  /** Connections that were ended, without those of other interfaces, which go on there. */
  readonly count: number;
  /** What could not be done, for a person. */
  readonly trouble?: string;
}

/** A connection to keep off the driver interface. */
export interface EndingFlow extends LocalFlow {
  /** Its own address belongs to another interface, so that it probably never passes the driver interface. */
  readonly isElsewhere?: boolean;
}

export interface Blocked {
  /** How many were not blocked before, without those that are elsewhere. */
  readonly count: number;
  /** Those that stay ended only if the kernel forgets them too. */
  readonly toForget: readonly Flow[];
  /** How many found no room: only of those elsewhere. */
  readonly beyond: number;
}

export interface RevocationPorts {
  readonly routes: Pick<RouteTable, 'readLocal'>;
  readonly table: FlowTable;
  /** From then on the kernel refuses the packets of these connections at the driver interface, in both directions. */
  readonly block: (flows: readonly EndingFlow[]) => Promise<Blocked>;
}

/**
 * Blocks every connection that an old policy admitted on the driver interface and the new one does not, as if its packets passed there. Whether they do,
 * nobody knows: routes depend on marks, ports and users, and change. The kernel refuses them at this interface
 * only, so a connection that never passes there goes on, and one that comes back with a link, an address or a route
 * does not. The new rules are already in force. The first connections end while the others are still being listed,
 * because the kernel walks its whole table for a listing.
 */
export async function revokeFlows({ routes, table, block }: RevocationPorts, revocation: Revocation): Promise<Revoked> {
  const { interface: name, before, after, serverAccess, containers = 'guard', remotes, untracked = false } = revocation;
  const { addresses, away } = await routes.readLocal(name);
  const isLocal = (address: string): boolean => addresses.has(address);
  const isHere = (address: string): boolean => isLocal(address) && away?.has(address) !== true;
  let [count, beyond] = [0, 0];
  const end = async (revoked: readonly LocalFlow[]): Promise<void> => {
    const blocked = await block(
      revoked.map((flow) => (addresses.get(flow.local) === false ? { ...flow, isElsewhere: true } : flow)),
    );
    if (blocked.toForget.length > 0) await table.forget([...new Set(blocked.toForget)]);
    count += blocked.count;
    beyond += blocked.beyond;
  };
  const isRevoked = revocationJudge(before, after, { serverAccess, containers });
  const seenFromHere = (flow: Flow): readonly LocalFlow[] => {
    const flows = localFlows(flow, isLocal);
    // An address that is away may be another device's by now: what goes on between it and one that is here need not stay inside.
    return flows.length > 0 || away === undefined || away.size === 0 ? flows : localFlows(flow, isHere);
  };
  const revokedOf = (flow: Flow): readonly LocalFlow[] => {
    if (flow.master === undefined) return seenFromHere(flow).filter(isRevoked);
    return seenFromHere(judgedFlow(flow)).some(isRevoked) ? seenFromHere(flow) : [];
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
  if (untracked) await endListed((visit) => table.listSockets(visit));
  if (beyond === 0) return { count };
  return {
    count,
    trouble: `${beyond} connections of other interfaces found no room in the list of those that must not move to this one`,
  };
}

/** The first connections end at once. The others end in large parts, because each part waits for the kernel. */
const together = 1_024;
