/** Owns what the server's URL says about its location: an address or a name, and a port. */
import { parseAddress, type Address } from '../../policy/address.ts';
import { isLoopback } from '../host/resolvers.ts';

export interface ServerEndpoint {
  /** As the URL names it, without brackets. */
  readonly host: string;
  readonly port: number;
  /** The address, if the URL contains one: then no name has to be resolved. */
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

/** The port of the servers that are reached over a network: the rules keep one open. */
export const portOf = (endpoints: readonly ServerEndpoint[]): number =>
  (endpoints.find((endpoint) => !isLocal(endpoint)) ?? endpoints[0])?.port ?? 443;

/** Whether several servers can be reached under closed rules, which keep one port open. */
export const shareOnePort = (endpoints: readonly ServerEndpoint[]): boolean =>
  new Set(endpoints.filter((endpoint) => !isLocal(endpoint)).map(({ port }) => port)).size <= 1;

const isLocal = (endpoint: ServerEndpoint): boolean =>
  endpoint.address === undefined ? isOnThisDevice(endpoint) : isLoopback(endpoint.address);

/** `localhost` and what ends in it never leaves the device (RFC 6761). */
export const isOnThisDevice = ({ host }: ServerEndpoint): boolean => /(?:^|\.)localhost\.?$/i.test(host);
