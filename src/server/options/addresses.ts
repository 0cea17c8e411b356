/** Owns the parsing of option values that are addresses: the listen address, networks of trusted proxies, and URLs. */
import { isIP } from 'node:net';
import { isSafeUrl } from '../../node/safe-url.ts';
import { parseDatabaseUrl } from './database-url.ts';
import { readList } from './values.ts';

export interface Listen {
  readonly host: string;
  readonly port: number;
}

/** `host:port`, `[v6]:port`, `:port` or a lone port; port 0 takes any free one. */
export function readListen(text: string): Listen {
  const match = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):)?(\d{1,5})$/.exec(text.trim());
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) throw new Error('It must be an address with a port, like 127.0.0.1:8080.');
  const host = match[1] ?? match[2];
  // A lone port stays on this machine; a colon before it says "everywhere".
  return { host: host === undefined ? '127.0.0.1' : host === '' ? '::' : host, port };
}

/** The text as it is: PostgreSQL's own programs read it too. */
export function readDatabaseUrl(text: string): string {
  parseDatabaseUrl(text);
  return text;
}

export function readIssuers(text: string): readonly string[] {
  const issuers = readList(text);
  for (const issuer of issuers) {
    if (!isSafeUrl(issuer)) throw new Error('It must be an https:// address (http:// on this machine only).');
    if (/[?#]/.test(issuer)) throw new Error('It must have neither a query nor a fragment.');
  }
  return issuers;
}

/** Addresses and networks in CIDR notation, strictly: a slip here lets people lie about where they come from. */
export function readNetworks(text: string): readonly string[] {
  const networks = readList(text);
  for (const network of networks) {
    const [address = '', length, ...more] = network.split('/');
    const family = isIP(address);
    const longest = family === 4 ? 32 : 128;
    const fits = length === undefined || (/^\d{1,3}$/.test(length) && Number(length) >= 1 && Number(length) <= longest);
    if (family === 0 || more.length > 0 || !fits) throw new Error('It must be addresses or networks like 10.0.0.0/8.');
  }
  return networks;
}

export function readPublicUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !isSafeUrl(text)) {
    throw new Error('It must be an https:// address (http:// on this machine only).');
  }
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') throw new Error('It must have no path.');
  return url.origin;
}
