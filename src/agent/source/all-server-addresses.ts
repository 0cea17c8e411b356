/**
 * Owns the addresses of all servers of the agent: which of them the rules keep open, and which a connection resolves.
 */
import { mergeRanges } from '../../policy/range.ts';
import { sameServerAccess, type ServerAccess } from '../../policy/server-access.ts';
import type { Address } from '../../policy/address.ts';
import type { ServerAddresses } from './server-access.ts';
import type { ServerEndpoint } from './server-endpoint.ts';

export interface KnownServer {
  readonly endpoint: ServerEndpoint;
  readonly addresses: ServerAddresses;
}

type Plain = ServerAccess['addresses'];

const merged = (parts: readonly Plain[]): Plain => ({
  v4: mergeRanges(parts.flatMap(({ v4 }) => v4)),
  v6: mergeRanges(parts.flatMap(({ v6 }) => v6)),
});

export class AllServerAddresses {
  readonly #servers: readonly KnownServer[];
  readonly #port: number;

  /** `port`: that of all servers that are not on this device. */
  constructor(servers: readonly KnownServer[], port: number) {
    this.#servers = servers;
    this.#port = port;
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

  /** Where to connect to for a host of one of the URLs. */
  find(host: string): Promise<readonly Address[]> {
    const known = this.#servers.find(({ endpoint }) => endpoint.host === host) ?? this.#servers[0];
    return known === undefined ? Promise.resolve([]) : known.addresses.find();
  }

  async run(options: { readonly signal: AbortSignal }): Promise<void> {
    await Promise.all(this.#servers.map(({ addresses }) => addresses.run(options)));
  }
}
