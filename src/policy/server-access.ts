/**
 * Owns the agent's access to its server: the new connections of a device that stay open regardless of its groups
 * (reference 1.2 (24)).
 */
import type { Addresses } from './canonical.ts';
import type { Packet } from './packet.ts';
import { hasAddress, sameRanges } from './range.ts';

type Plain = Pick<Addresses, 'v4' | 'v6'>;

/** Where the agent finds its server. Each address is a range of one. */
export interface ServerAccess {
  readonly addresses: Plain;
  readonly port: number;
  /** The DNS resolvers that the device asks for these addresses. Empty where the server is configured by address. */
  readonly resolvers: Plain;
}

/** The port of DNS. */
export const resolverPort = 53;

/** Only the device itself goes this way, and only outwards: answers belong to its connections. */
export function isServerAccess({ addresses, port, resolvers }: ServerAccess, packet: Packet): boolean {
  const { direction, forwarded, family, remote, transport } = packet;
  if (direction !== 'outbound' || forwarded !== undefined) return false;
  if (transport.kind !== 'tcp' && transport.kind !== 'udp') return false;
  const among = ({ v4, v6 }: Plain): boolean => hasAddress(family === 4 ? v4 : v6, remote);
  if (transport.dport === resolverPort && among(resolvers)) return true;
  return transport.kind === 'tcp' && transport.dport === port && among(addresses);
}

const samePlain = (a: Plain, b: Plain): boolean => sameRanges(a.v4, b.v4) && sameRanges(a.v6, b.v6);

export const sameServerAccess = (a: ServerAccess | undefined, b: ServerAccess | undefined): boolean =>
  a === undefined || b === undefined
    ? a === b
    : a.port === b.port && samePlain(a.addresses, b.addresses) && samePlain(a.resolvers, b.resolvers);

const hasNoAddress = ({ v4, v6 }: Plain): boolean => v4.length + v6.length === 0;

/** Whether nothing at all goes this way. */
export const isNoAccess = ({ addresses, resolvers }: ServerAccess): boolean =>
  hasNoAddress(addresses) && hasNoAddress(resolvers);
