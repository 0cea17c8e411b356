/** Owns the test whether a new connection to a server can be opened. */
import { connect, type LookupFunction } from 'node:net';
import type { AllServerAddresses } from './all-server-addresses.ts';
import { endpointOf } from './server-endpoint.ts';
import { lookupThrough } from './server-lookup.ts';

/** Milliseconds for a connection and the look-up before it. */
const timeout = 5_000;

function opens(url: string, lookup: LookupFunction | undefined): Promise<boolean> {
  const { host, port } = endpointOf(url);
  return new Promise((resolve) => {
    const socket = connect({ host, port, ...(lookup && { lookup }) });
    const timer = setTimeout(() => end(false), timeout);
    const end = (isOpen: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(isOpen);
    };
    socket.once('connect', () => end(true)).once('error', () => end(false));
  });
}

/** Opens a connection of its own to one server after the other and ends it at once: one that is kept open proves nothing about the rules of now. */
export const serverProbe = (
  urls: readonly string[],
  addresses: Pick<AllServerAddresses, 'find'> | undefined,
): (() => Promise<boolean>) => {
  const lookup = addresses && lookupThrough((host) => addresses.find(host));
  return async () => {
    for (const url of urls) if (await opens(url, lookup)) return true;
    return false;
  };
};
