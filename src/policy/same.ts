/** Owns the question whether two canonical policies are the same, to whom they count a packet included: equal part by part, or they differ. */
import type { CanonicalPolicy, DirectionPolicy, PortMap, TransportPolicy } from './canonical.ts';
import { sameAddresses } from './shares.ts';

const sameList = <T>(a: readonly T[], b: readonly T[], same: (x: T, y: T) => boolean): boolean =>
  a.length === b.length && a.every((x, i) => same(x, b[i] as T));

function samePorts(a: PortMap, b: PortMap): boolean {
  if (a.kind === 'intervals') {
    return (
      b.kind === 'intervals' &&
      sameList(
        a.intervals,
        b.intervals,
        (x, y) => x.from === y.from && x.to === y.to && sameAddresses(x.addresses, y.addresses),
      )
    );
  }
  return (
    b.kind === 'prefixes' &&
    sameList(
      a.nodes,
      b.nodes,
      (x, y) => x.length === y.length && x.value === y.value && sameAddresses(x.addresses, y.addresses),
    )
  );
}

const sameTransport = (a: TransportPolicy, b: TransportPolicy): boolean =>
  sameAddresses(a.anyPort, b.anyPort) && samePorts(a.ports, b.ports);

function sameDirection(a: DirectionPolicy, b: DirectionPolicy): boolean {
  if (a.kind === 'open' || b.kind === 'open') return a.kind === b.kind;
  return (
    sameAddresses(a.any, b.any) &&
    sameAddresses(a.echo, b.echo) &&
    sameTransport(a.tcp, b.tcp) &&
    sameTransport(a.udp, b.udp)
  );
}

export const samePolicy = (a: CanonicalPolicy, b: CanonicalPolicy): boolean =>
  sameDirection(a.inbound, b.inbound) && sameDirection(a.outbound, b.outbound);
