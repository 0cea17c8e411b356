/**
 * Owns the name lookup for Node's connections to the server: each new connection uses the agent's own resolved
 * addresses.
 */
import { lookup as systemLookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';

/** The addresses that this device's own configuration gives a name, in the order in which they should be tried. */
export async function resolveName(host: string): Promise<readonly Address[]> {
  const found = await systemLookup(host, { all: true });
  return found.flatMap(({ address }) => {
    const read = parseAddress(address);
    return 'fault' in read ? [] : [read];
  });
}

/** What a connection asks for, answered by `find`. */
export const lookupThrough =
  (find: (host: string) => Promise<readonly Address[]>): LookupFunction =>
  (host, { all, family }, answer) => {
    const told = async (): Promise<void> => {
      const found = (await find(host))
        .filter((address) => (family !== 4 && family !== 6) || address.family === family)
        .map((address) => ({ address: printAddress(address.family, address.value), family: address.family }));
      const [first] = found;
      if (first === undefined) throw Object.assign(new Error('the server has no address'), { code: 'ENOTFOUND' });
      if (all === true) answer(null, found);
      else answer(null, first.address, first.family);
    };
    told().catch((error: unknown) => {
      answer(error instanceof Error ? error : new Error(String(error)), []);
    });
  };
