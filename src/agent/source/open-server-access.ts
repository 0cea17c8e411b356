/** Owns how the agent's connections and its way to the server are put together. */
import type { NodeFetchOptions } from '../../node/fetch.ts';
import { readResolvers } from '../host/resolvers.ts';
import type { StateFolder } from '../state/state-folder.ts';
import { ServerAddresses, type ServerAccessOptions } from './server-access.ts';
import { endpointOf } from './server-endpoint.ts';
import { lookupThrough, resolveName } from './server-lookup.ts';

type Surroundings = Pick<ServerAccessOptions, 'clock' | 'monotonic' | 'random' | 'log'> & {
  readonly state: StateFolder;
};

/** Where the server is found, with what was kept of it and whom the device asks: enough for the rules before the network is. */
export async function openServerAccess(url: string, { state, ...rest }: Surroundings): Promise<ServerAddresses> {
  const endpoint = endpointOf(url);
  const addresses = new ServerAddresses({
    endpoint,
    resolve: resolveName,
    resolvers: () => readResolvers(),
    kept: await state.readServerAddresses(endpoint),
    keep: (found) => state.keepServerAddresses(endpoint, found),
    ...rest,
  });
  await addresses.begin();
  return addresses;
}

/** Connections that ask for the server's addresses each time, and are known while they stand. */
export const connectionsThrough = (
  addresses: ServerAddresses,
): Required<Pick<NodeFetchOptions, 'lookup' | 'onConnection'>> => ({
  lookup: lookupThrough(() => addresses.find()),
  onConnection: (address) => addresses.opened(address),
});
