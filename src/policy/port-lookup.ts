/** Owns the lookup of a packet in a port map: whether it is admitted, and which group counts it. */
import type { Addresses, PortMap, PortNode } from './canonical.ts';
import type { GroupId } from './ids.ts';
import { rangeAt } from './range.ts';
import type { Family } from './rule.ts';

/** The one of ascending disjoint intervals that holds the port, by binary search. */
function intervalAt<I extends { readonly from: number; readonly to: number }>(
  intervals: readonly I[],
  port: number,
): I | undefined {
  let [low, high] = [0, intervals.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const interval = intervals[middle] as I;
    if (port < interval.from) high = middle - 1;
    else if (port > interval.to) low = middle + 1;
    else return interval;
  }
  return undefined;
}

export interface PortVerdict {
  readonly group: GroupId | undefined;
}

const admittedBy = (group: GroupId | undefined): PortVerdict => ({ group });

/** Who admits the address, first of all shares. */
function admittedAddress(addresses: Addresses, family: Family, address: bigint): PortVerdict | undefined {
  const holds = ({ v4, v6 }: Pick<Addresses, 'v4' | 'v6'>): boolean =>
    rangeAt(family === 4 ? v4 : v6, address) !== undefined;
  if (addresses.shares === undefined) return holds(addresses) ? admittedBy(undefined) : undefined;
  const share = addresses.shares.find(holds);
  return share && admittedBy(share.group);
}

function admittedAtNode(node: PortNode, port: number, family: Family, address: bigint): PortVerdict | undefined {
  if ('addresses' in node) return admittedAddress(node.addresses, family, address);
  const share = node.shares.find(({ v4, v6 }) => {
    const range = rangeAt(family === 4 ? v4 : v6, address);
    return range !== undefined && range.from <= port && port <= range.to;
  });
  return share && admittedBy(share.group);
}

/** Who admits a packet to the port from the address, in the order in which the kernel looks it up. */
export function admittedPort(ports: PortMap, port: number, family: Family, address: bigint): PortVerdict | undefined {
  const layers: readonly (readonly PortNode[])[] = ports.kind === 'intervals' ? [ports.intervals] : ports.layers;
  for (const layer of layers) {
    const node = intervalAt(layer, port);
    const admitted = node && admittedAtNode(node, port, family, address);
    if (admitted !== undefined) return admitted;
  }
  return undefined;
}
