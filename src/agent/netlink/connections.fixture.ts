/** Owns the listing of all connections at once, for tests and benchmarks. */
import type { NetlinkChannel } from './channel.ts';
import type { FarEnd } from '../host/flow-table.ts';
import { visitConnections, type KernelFlow } from './connections.ts';

/** All of them at once. */
export async function listConnections(
  channel: NetlinkChannel,
  remotes?: readonly FarEnd[],
): Promise<readonly KernelFlow[]> {
  const flows: KernelFlow[] = [];
  await visitConnections(channel, remotes, (part) => flows.push(...part));
  return flows;
}
