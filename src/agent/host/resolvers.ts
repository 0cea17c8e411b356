/** Owns the reading of the DNS resolvers that this device is configured to ask. */
import { readFile } from 'node:fs/promises';
import { parseAddress, type Address } from '../../policy/address.ts';

/** The system's resolver asks the first three, whatever else the file names. */
const mostAsked = 3;
/** systemd-resolved asks all resolvers that it has; real configurations have only a few. */
const mostUpstream = 8;

const configuration = '/etc/resolv.conf';
/** Where systemd-resolved writes whom it asks itself, for those who ask its stub on this device. */
const upstreamConfiguration = '/run/systemd/resolve/resolv.conf';

/** `127.0.0.53` and `127.0.0.54`: the stub of systemd-resolved. */
const stubs: ReadonlySet<bigint> = new Set([0x7f00_0035n, 0x7f00_0036n]);

export const isLoopback = ({ family, value }: Address): boolean =>
  family === 4 ? value >> 24n === 127n : value === 1n;

/** A link-local resolver is named with its interface, which rules about the driver interface do not need. */
const withoutZone = (text: string): string => (/^fe[89ab]/i.test(text) ? (text.split('%')[0] ?? '') : text);

/** The resolvers that the text of a `resolv.conf` names, in order. A line that is not understood names none. */
export function parseResolvers(text: string, most = mostAsked): readonly Address[] {
  return text
    .split('\n')
    .flatMap((line) => {
      const [keyword, value, ...rest] = line.trim().split(/[ \t]+/, 4);
      // What follows an address may be a comment only.
      if (keyword !== 'nameserver' || value === undefined || (rest[0] !== undefined && !/^[#;]/.test(rest[0])))
        return [];
      const address = parseAddress(withoutZone(value));
      return 'fault' in address ? [] : [address];
    })
    .slice(0, most);
}

export type ReadText = (path: string) => Promise<string>;

/**
 * The resolvers that are asked over the network. Those on this device itself are not: but where it is the stub of
 * systemd-resolved, the ones that it asks in turn are known. A file that cannot be read names none.
 */
export async function readResolvers(read: ReadText = (path) => readFile(path, 'utf8')): Promise<readonly Address[]> {
  const named = parseResolvers(await read(configuration).catch(() => ''));
  const isStub = named.some(({ family, value }) => family === 4 && stubs.has(value));
  const upstream = isStub ? parseResolvers(await read(upstreamConfiguration).catch(() => ''), mostUpstream) : [];
  return [...named, ...upstream].filter((address) => !isLoopback(address));
}
