/**
 * Owns the addresses of all servers of the agent: which of them the rules keep open, and which a connection resolves.
 */
import { mergeRanges } from '../../policy/range.ts';
import { sameServerAccess, type ServerAccess } from '../../policy/server-access.ts';
import type { Address } from '../../policy/address.ts';
import { AddressOrder } from './address-order.ts';
import type { ServerAddresses } from './server-access.ts';
import type { ServerAddressChoice } from './server-choice.ts';
import { endpointOf, type ServerEndpoint } from './server-endpoint.ts';

export interface KnownServer {
  readonly endpoint: ServerEndpoint;
  readonly addresses: ServerAddresses;
}

type Plain = ServerAccess['addresses'];

const merged = (parts: readonly Plain[]): Plain => ({
  v4: mergeRanges(parts.flatMap(({ v4 }) => v4)),
  v6: mergeRanges(parts.flatMap(({ v6 }) => v6)),
});

export class AllServerAddresses implements ServerAddressChoice {
  readonly #servers: readonly KnownServer[];
  readonly #port: number;
  readonly #order: AddressOrder;

  /** `port`: that of all servers that are not on this device. */
  constructor(servers: readonly KnownServer[], port: number, { random }: { readonly random: () => number }) {
    this.#servers = servers;
    this.#port = port;
    this.#order = new AddressOrder({ random });
  }

  get access(): ServerAccess {
    const all = this.#servers.map(({ addresses }) => addresses.access);
    return {
      addresses: merged(all.map(({ addresses }) => addresses)),
      port: this.#port,
      resolvers: merged(all.map(({ resolvers }) => resolvers)),
    };
  }

  onChange(handler: () => void): () => void {
    const ends = this.#servers.map(({ addresses }) => addresses.onChange(handler));
    return () => {
      for (const end of ends) end();
    };
  }

  /** The rules are such that this access is open. Each server's part of it is open once the whole is. */
  settled(access: ServerAccess | undefined): void {
    const isOpen = sameServerAccess(access, this.access);
    for (const { addresses } of this.#servers) addresses.settled(isOpen ? addresses.access : undefined);
  }

  opened(remote: string): () => void {
    const ends = this.#servers.map(({ addresses }) => addresses.opened(remote));
    return () => {
      for (const end of ends) end();
    };
  }

  /** Where to connect to for a host of one of the URLs, in the order in which to try. */
  async find(host: string): Promise<readonly Address[]> {
    return this.#order.sort(host, (await this.#of(host)?.addresses.find()) ?? []);
  }

  count(url: string): number {
    return this.#of(endpointOf(url).host)?.addresses.count ?? 0;
  }

  leave(url: string, remote: string | undefined): void {
    this.#order.leave(endpointOf(url).host, remote);
  }

  #of(host: string): KnownServer | undefined {
    return this.#servers.find(({ endpoint }) => endpoint.host === host) ?? this.#servers[0];
  }

  async run(options: { readonly signal: AbortSignal }): Promise<void> {
    await Promise.all(this.#servers.map(({ addresses }) => addresses.run(options)));
  }
}
