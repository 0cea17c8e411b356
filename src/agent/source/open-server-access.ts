/** Owns the assembly of the agent's connections and its access to its servers. */
import type { NodeFetchOptions } from '../../node/fetch.ts';
import { readResolvers } from '../host/resolvers.ts';
import type { KeptServer } from '../state/server-addresses.ts';
import type { StateFolder } from '../state/state-folder.ts';
import { AllServerAddresses } from './all-server-addresses.ts';
import { ServerAddresses, type ServerAccessOptions } from './server-access.ts';
import { endpointOf, portOf } from './server-endpoint.ts';
import { lookupThrough, resolveName } from './server-lookup.ts';

type Surroundings = Pick<ServerAccessOptions, 'clock' | 'monotonic' | 'random' | 'log'> & {
  readonly state: StateFolder;
};

/** Where the servers are found, with what was kept of them and whom the device asks: enough for the rules before the network is. */
export async function openServerAccess(
  urls: readonly string[],
  { state, ...rest }: Surroundings,
): Promise<AllServerAddresses> {
  const endpoints = urls.map(endpointOf);
  const found: KeptServer[] = await Promise.all(
    endpoints.map(async (endpoint) => ({ ...endpoint, addresses: await state.readServerAddresses(endpoint) })),
  );
  const servers = endpoints.map((endpoint, index) => ({
    endpoint,
    addresses: new ServerAddresses({
      endpoint,
      resolve: resolveName,
      resolvers: () => readResolvers(),
      kept: found[index]?.addresses ?? [],
      keep: (addresses) => {
        found[index] = { ...endpoint, addresses };
        return state.keepServerAddresses(found);
      },
      ...rest,
    }),
  }));
  for (const { addresses } of servers) await addresses.begin();
  return new AllServerAddresses(servers, portOf(endpoints), rest);
}

/** Connections that ask for the server's addresses each time, and are known while they stand. */
export const connectionsThrough = (
  servers: AllServerAddresses,
): Required<Pick<NodeFetchOptions, 'lookup' | 'onConnection'>> => ({
  lookup: lookupThrough((host) => servers.find(host)),
  onConnection: (address) => servers.opened(address),
});
