/**
 * Owns which of several servers the agent asks: one that it picks at random, until that one cannot be reached, is silent, or says that it cannot work (503,
 * because its database is away or because it shuts down). Then it asks another, in a random order, and leaves the stream that it has.
 */
import { readyPreference } from '../../api/kinds.ts';
import type { ByteStream, Fetch, FetchInit, FetchResponse } from '../../client/request.ts';

export interface ServerChoiceOptions {
  /** URLs without a slash at the end. Requests are made to the first, and go to the one that is chosen. */
  readonly servers: readonly string[];
  readonly random: () => number;
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

class ServerChoice {
  #order: readonly string[];
  readonly #streams = new Set<AbortController>();

  constructor({ servers, random }: ServerChoiceOptions) {
    this.#order = shuffled(servers, random);
  }

  get current(): string {
    return this.#order[0] ?? '';
  }

  /** Turns to another server, unless that has happened already. */
  leave(server: string): void {
    if (this.current !== server) return;
    this.#order = [...this.#order.slice(1), server];
    for (const stream of this.#streams) stream.abort(new Error(`leaving ${server}, which cannot work`));
    this.#streams.clear();
  }

  /** A signal for a stream: it ends with the caller's, or when its server is left. */
  streamSignal(server: string, { signal }: FetchInit): AbortSignal {
    const own = new AbortController();
    this.#streams.add(own);
    const onAbort = (): void => {
      this.#streams.delete(own);
      if (isSilence(signal.reason)) this.leave(server);
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
  const { body, status, headers, write } = response;
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
  return { status, headers, json: () => response.json(), body: ending, ...(write && { write }) };
}

/** A fetch that goes to the server that is chosen. */
export function choosingFetch(fetch: Fetch, options: ServerChoiceOptions): Fetch {
  const { servers } = options;
  const [first = ''] = servers;
  if (servers.length < 2) return fetch;
  const choice = new ServerChoice(options);

  const attempt = async (url: string, init: FetchInit): Promise<FetchResponse> => {
    const server = choice.current;
    const signal = isStream(url) ? choice.streamSignal(server, init) : init.signal;
    const headers = isStream(url) ? withReadyPreference(init.headers) : init.headers;
    try {
      const response = await fetch(`${server}${url.slice(first.length)}`, { ...init, headers, signal });
      if (isAway(response.status)) choice.leave(server);
      return isStream(url) ? withEnd(response, () => choice.leave(server)) : response;
    } catch (error) {
      if (!init.signal.aborted || isSilence(init.signal.reason)) choice.leave(server);
      throw error;
    }
  };

  return async (url, init) => {
    // Each server once, before the caller waits: a fleet that lost one server finds the others at once.
    for (let left = isStream(url) ? servers.length - 1 : 0; left > 0; left -= 1) {
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
