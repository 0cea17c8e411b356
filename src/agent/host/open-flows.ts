/** Owns the list of what open connections are with. Their first packets may be long gone, so nothing else tells of their traffic. */
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { admits } from '../../policy/canonicalize.ts';
import { isForwardedOnly, isPlumbing } from '../../policy/decide.ts';
import type { Direction, Family } from '../../policy/rule.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import { BatchQueue } from './batch-queue.ts';
import type { FlowTable } from './flow-table.ts';
import { firstPacket, localFlows, type LocalFlow } from './flows.ts';
import type { RoutedInterface, RouteLookup, RouteTable } from './route-table.ts';

export interface OpenFlowsQuestion {
  readonly interface: string;
  readonly policy: CanonicalPolicy;
  /** The agent's own connections are not listed. */
  readonly serverAccess?: ServerAccess | undefined;
  readonly containers: 'guard' | 'ignore';
}

/** Open connections of one direction, with one far end, by protocol and port. */
export interface OpenTuple {
  readonly direction: Direction;
  readonly family: Family;
  readonly far: bigint;
  readonly protocol: number;
  /** Of TCP and UDP only. */
  readonly port?: number;
}

export interface OpenFlows {
  readonly tuples: readonly OpenTuple[];
  /** Connections that found no room in the list. */
  readonly beyond: number;
}

/** A few megabytes. */
const mostTuples = 16_384;
/** Routes are asked for in large parts. */
const together = 1_024;
const echoRequests: ReadonlySet<number> = new Set([8, 128]);

/** The tuple by which rules record such a connection; nothing where they do not. */
function tupleOf(flow: LocalFlow, question: OpenFlowsQuestion): OpenTuple | undefined {
  const packet = firstPacket(flow);
  // What belongs to another connection, as data of FTP does, is admitted by that one.
  if (packet === undefined || flow.flow.master !== undefined) return undefined;
  const { policy, serverAccess, containers } = question;
  if (isForwardedOnly(packet, { containers }) || isPlumbing(packet, { serverAccess }) !== undefined) return undefined;
  const { direction, family, remote: far, transport } = packet;
  if ('type' in transport && !echoRequests.has(transport.type)) return undefined;
  if (!admits(policy, packet, { containers })) return undefined;
  const port = 'dport' in transport ? { port: transport.dport } : {};
  return { direction, family, far, protocol: flow.flow.protocol, ...port };
}

const keyOf = ({ direction, family, far, protocol, port }: OpenTuple): string =>
  `${direction} ${family} ${far} ${protocol} ${port}`;

/** The connections over the interface that the policy admits, each tuple once. Fails while the interface is not there: its connections may outlive that. */
export async function listOpenFlows(
  { routes, table }: { readonly routes: RouteTable; readonly table: FlowTable },
  question: OpenFlowsQuestion,
): Promise<OpenFlows> {
  const { addresses, interface: routed } = await routes.readLocal(question.interface);
  if (routed.index === 0) throw new Error(`the interface ${routed.name} is not there`);
  const isOver = interfaceFinder(routes, addresses, routed);
  const found = new Map<string, OpenTuple>();
  let beyond = 0;
  const listing = new BatchQueue<readonly [string, OpenTuple, LocalFlow]>(
    async (part) => {
      const over = await isOver(part.map(([, , flow]) => flow));
      for (const [key, tuple, flow] of part) {
        if (!over(flow)) continue;
        if (found.size < mostTuples || found.has(key)) found.set(key, tuple);
        else beyond += 1;
      }
    },
    { least: together },
  );
  try {
    await table.list(undefined, (part) => {
      const open = part.filter(({ isOpen }) => isOpen === true);
      const local = open.flatMap((flow) => localFlows(flow, (address) => addresses.has(address)));
      listing.add(
        local.flatMap((flow) => {
          const tuple = tupleOf(flow, question);
          const key = tuple && keyOf(tuple);
          return tuple === undefined || key === undefined || found.has(key) ? [] : [[key, tuple, flow] as const];
        }),
      );
    });
  } finally {
    await listing.done();
  }
  return { tuples: [...found.values()], beyond };
}

/**
 * Finds out which connections probably use the interface. conntrack does not report that, so the routes of this moment decide, with one lookup
 * per pair of ends. That is good enough for a report, and for nothing else.
 */
function interfaceFinder(
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
