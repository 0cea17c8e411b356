/** Owns what the server's URL says about where it is: an address or a name, and a port. */
import { parseAddress, type Address } from '../../policy/address.ts';

export interface ServerEndpoint {
  /** As the URL names it, without brackets. */
  readonly host: string;
  readonly port: number;
  /** Where the URL itself is an address: then nobody has to be asked. */
  readonly address: Address | undefined;
}

const defaultPort: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

/** An IPv4 address in the clothes of an IPv6 one goes over the wire as IPv4. */
export function asSent(address: Address): Address {
  const { family, value } = address;
  return family === 6 && value >> 32n === 0xffffn ? { family: 4, value: value & 0xffff_ffffn } : address;
}

/** The URL is one that was read as an option already. */
export function endpointOf(url: string): ServerEndpoint {
  const { hostname, port, protocol } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const address = parseAddress(host);
  return {
    host,
    port: port === '' ? (defaultPort[protocol] ?? 443) : Number(port),
    address: 'fault' in address ? undefined : asSent(address),
  };
}

/** `localhost` and what ends in it never leaves the device (RFC 6761). */
export const isOnThisDevice = ({ host }: ServerEndpoint): boolean => /(?:^|\.)localhost\.?$/i.test(host);
