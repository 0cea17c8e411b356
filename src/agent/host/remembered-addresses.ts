/** Owns the memory of this device's addresses that are away for a moment: connections from and to them wait for their return. */
import type { LocalAddresses, RouteTable } from './route-table.ts';

/** An address that is away for longer may belong to somebody else by now. */
const remembered = 10 * 60_000;
/** Addresses that are remembered at most, besides those that are there. */
const mostAway = 10_000;

interface Seen {
  readonly isOnInterface: boolean;
  readonly at: number;
}

/** The same addresses, and those that were there a short while ago. */
export function rememberingAddresses(
  routes: Pick<RouteTable, 'readLocal'>,
  monotonic: () => number,
): Pick<RouteTable, 'readLocal'> {
  const seen = new Map<string, Seen>();
  return {
    async readLocal(name): Promise<LocalAddresses> {
      const local = await routes.readLocal(name);
      const now = monotonic();
      for (const [address, { at }] of seen) {
        if (now - at > remembered || seen.size > mostAway) seen.delete(address);
      }
      for (const [address, isOnInterface] of local.addresses) seen.set(address, { isOnInterface, at: now });
      const addresses = new Map([...seen].map(([address, { isOnInterface }]) => [address, isOnInterface]));
      const away = new Set([...seen.keys()].filter((address) => !local.addresses.has(address)));
      return { ...local, addresses, away };
    },
  };
}
