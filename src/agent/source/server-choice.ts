/**
 * Owns which of several servers the agent asks: one that it picks at random, until that one cannot be reached, is silent, or says that it cannot work (503,
 * because its database is away or because it shuts down). Then it asks another, in a random order, and leaves the stream that it has. The servers have
 * a URL each, or share the name of one URL, which has several addresses.
 */
import { readyPreference } from '../../api/kinds.ts';
import type { ByteStream, Fetch, FetchInit, FetchResponse } from '../../client/request.ts';

export interface ServerChoiceOptions {
  /** URLs without a slash at the end. Requests are made to the first, and go to the one that is chosen. */
  readonly servers: readonly string[];
  readonly random: () => number;
  /** The addresses of a host as the connections try them; absent where they find the server by themselves. */
  readonly addresses?: ServerAddressChoice;
}

export interface ServerAddressChoice {
  /** How many the host of this URL has, as far as known. */
  count(url: string): number;
  /** Puts this one last, or the first where nothing says which it was. */
  leave(url: string, remote: string | undefined): void;
}

/** What a proxy answers for a server that is away, and a server that cannot work. */
const isAway = (status: number): boolean => status >= 502 && status <= 504;

/** A stream says nothing that another attempt could do twice. */
const isStream = (url: string): boolean => new URL(url).pathname.endsWith('/events');

const isSilence = (reason: unknown): boolean =>
  reason instanceof Error && 'code' in reason && (reason.code === 'silent' || reason.code === 'timed_out');

function shuffled<T>(items: readonly T[], random: () => number): readonly T[] {
  return items
    .map((item) => ({ item, key: random() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ item }) => item);
}

/** A server that was asked: its URL, and its address once it has answered. */
interface Asked {
  readonly server: string;
  remote?: string | undefined;
}

/** Each server once, before the caller waits; not more, because a name can have many addresses. */
const mostAttempts = 16;

class ServerChoice {
  #order: readonly string[];
  readonly #addresses: ServerAddressChoice | undefined;
  readonly #streams = new Map<AbortController, Asked>();

  constructor({ servers, random, addresses }: ServerChoiceOptions) {
    this.#order = shuffled(servers, random);
    this.#addresses = addresses;
  }

  get current(): string {
    return this.#order[0] ?? '';
  }

  /** How many servers there are to choose from. */
  get size(): number {
    return this.#order.length > 1 ? this.#order.length : (this.#addresses?.count(this.current) ?? 1);
  }

  /** Turns to another server, unless that has happened already. */
  leave({ server, remote }: Asked): void {
    this.#addresses?.leave(server, remote);
    const isShared = this.#order.length < 2;
    if (!isShared && this.current !== server) return;
    this.#order = [...this.#order.slice(1), server];
    for (const [stream, asked] of this.#streams) {
      // Others behind the same name may work.
      if (isShared && (remote === undefined || asked.remote !== remote)) continue;
      this.#streams.delete(stream);
      stream.abort(new Error(`leaving ${server}, which cannot work`));
    }
  }

  /** A signal for a stream: it ends with the caller's, or when its server is left. */
  streamSignal(asked: Asked, { signal }: FetchInit): AbortSignal {
    const own = new AbortController();
    this.#streams.set(own, asked);
    const onAbort = (): void => {
      this.#streams.delete(own);
      if (isSilence(signal.reason)) this.leave(asked);
      own.abort(signal.reason);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    return own.signal;
  }
}

/** Asks the server to end the stream when it loses its database. */
const withReadyPreference = (headers: FetchInit['headers']): FetchInit['headers'] => {
  const { prefer } = headers;
  return { ...headers, prefer: prefer === undefined ? readyPreference : `${prefer}, ${readyPreference}` };
};

/** The same response. `onEnd` is called when its body has come to a proper end: the server shuts down, has lost its database, or lets old streams go. */
function withEnd(response: FetchResponse, onEnd: () => void): FetchResponse {
  const { body, status, headers, write, remote } = response;
  if (body === null) return response;
  const ending: ByteStream = {
    getReader() {
      const reader = body.getReader();
      return {
        async read() {
          const part = await reader.read();
          if (part.done) onEnd();
          return part;
        },
      };
    },
    cancel: () => body.cancel(),
  };
  return {
    status,
    headers,
    json: () => response.json(),
    body: ending,
    ...(write && { write }),
    ...(remote !== undefined && { remote }),
  };
}

/** A fetch that goes to the server that is chosen. */
export function choosingFetch(fetch: Fetch, options: ServerChoiceOptions): Fetch {
  const [first = ''] = options.servers;
  const choice = new ServerChoice(options);

  const attempt = async (url: string, init: FetchInit): Promise<FetchResponse> => {
    const asked: Asked = { server: choice.current };
    const leave = (): void => choice.leave(asked);
    const signal = isStream(url) ? choice.streamSignal(asked, init) : init.signal;
    const headers = isStream(url) ? withReadyPreference(init.headers) : init.headers;
    try {
      const response = await fetch(`${asked.server}${url.slice(first.length)}`, { ...init, headers, signal });
      asked.remote = response.remote;
      if (isAway(response.status)) leave();
      return isStream(url) ? withEnd(response, leave) : response;
    } catch (error) {
      if (!init.signal.aborted || isSilence(init.signal.reason)) leave();
      throw error;
    }
  };

  return async (url, init) => {
    const count = Math.min(choice.size, mostAttempts);
    if (count < 2) return fetch(url, init);
    // A fleet that lost one server finds the others at once.
    for (let left = isStream(url) ? count - 1 : 0; left > 0; left -= 1) {
      try {
        const response = await attempt(url, init);
        if (!isAway(response.status)) return response;
        await response.body?.cancel().catch(() => undefined);
      } catch (error) {
        if (init.signal.aborted) throw error;
      }
    }
    return attempt(url, init);
  };
}
