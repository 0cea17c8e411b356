/** Owns the comparison of two canonical policies, part by part, including which group counts a packet. */
import type {
  CanonicalPolicy,
  DirectionPolicy,
  MatchSet,
  PortedName,
  PortedRange,
  PortMap,
  PortNode,
  TransportPolicy,
} from './canonical.ts';
import { sameRanges } from './range.ts';
import { sameAddresses } from './address-sets.ts';

const sameList = <T>(a: readonly T[], b: readonly T[], same: (x: T, y: T) => boolean): boolean =>
  a.length === b.length && a.every((x, i) => same(x, b[i] as T));

const samePorted = (a: readonly PortedRange[], b: readonly PortedRange[]): boolean =>
  sameRanges(a, b) && sameList(a, b, (x, y) => x.from === y.from && x.to === y.to);

const sameName = (a: PortedName, b: PortedName): boolean =>
  a.group === b.group && a.key === b.key && a.family === b.family && a.from === b.from && a.to === b.to;

function sameNode(a: PortNode, b: PortNode): boolean {
  if (a.from !== b.from || a.to !== b.to) return false;
  if ('addresses' in a) return 'addresses' in b && sameAddresses(a.addresses, b.addresses);
  return (
    'shares' in b &&
    sameList(a.names ?? [], b.names ?? [], sameName) &&
    sameList(a.shares, b.shares, (x, y) => x.group === y.group && samePorted(x.v4, y.v4) && samePorted(x.v6, y.v6))
  );
}

function samePorts(a: PortMap, b: PortMap): boolean {
  if (a.kind === 'intervals') return b.kind === 'intervals' && sameList(a.intervals, b.intervals, sameNode);
  return b.kind === 'tree' && sameList(a.layers, b.layers, (x, y) => sameList(x, y, sameNode));
}

const sameTransport = (a: TransportPolicy, b: TransportPolicy): boolean =>
  sameAddresses(a.anyPort, b.anyPort) && samePorts(a.ports, b.ports);

const sameMatches = (a: MatchSet, b: MatchSet): boolean =>
  sameAddresses(a.any, b.any) &&
  sameAddresses(a.echo, b.echo) &&
  sameTransport(a.tcp, b.tcp) &&
  sameTransport(a.udp, b.udp);

function sameDirection(a: DirectionPolicy, b: DirectionPolicy): boolean {
  if (a.forbid === undefined || b.forbid === undefined) {
    if (a.forbid !== b.forbid) return false;
  } else if (!sameMatches(a.forbid, b.forbid)) return false;
  if (a.kind === 'open' || b.kind === 'open') return a.kind === b.kind;
  return sameMatches(a, b);
}

export const samePolicy = (a: CanonicalPolicy, b: CanonicalPolicy): boolean =>
  sameDirection(a.inbound, b.inbound) && sameDirection(a.outbound, b.outbound);
