/** Owns the fake clock and network that the client's tests share. */
import type { Clock } from './clock.ts';
import { Client, type ClientOptions } from './http.ts';
import type { FetchInit, FetchResponse } from './request.ts';

/** The tests of the pages are compiled without the names of Node, but all tests run in it. */
const { setImmediate } = globalThis as unknown as { readonly setImmediate: (run: () => void) => void };

/** Lets everything run that is ready to run, without letting time pass. Streams take a few turns of the loop. */
export async function turn(times = 1): Promise<void> {
  for (let index = 0; index < times; index += 1) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}

/** A clock that moves only when a test advances it. */
export class FakeClock implements Clock {
  #now = 1_700_000_000_000;
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>();

  now(): number {
    return this.#now;
  }
  after(milliseconds: number, run: () => void): () => void {
    const timer = { at: this.#now + milliseconds, run };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }
  get timers(): number {
    return this.#timers.size;
  }
  /** Milliseconds until the next timer fires. */
  get next(): number | undefined {
    const ats = [...this.#timers].map(({ at }) => at);
    return ats.length === 0 ? undefined : Math.min(...ats) - this.#now;
  }
  /** Moves on, firing what is due on the way, in order. */
  async advance(milliseconds: number): Promise<void> {
    const goal = this.#now + milliseconds;
    for (;;) {
      await turn(2);
      const due = [...this.#timers].filter(({ at }) => at <= goal).toSorted((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#now = Math.max(this.#now, due.at);
      due.run();
    }
    this.#now = goal;
    await turn(2);
  }
}

/** A request as the fake network saw it. */
export interface RecordedRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body: unknown;
  readonly signal: AbortSignal;
  readonly upgrade: string | undefined;
}

export type Handler = (request: RecordedRequest) => FetchResponse | Promise<FetchResponse>;

/** A client on a fake network: requests are kept, and answered by the handler. An aborted request rejects, as fetch does. */
export function fakeNetwork(handler: Handler, options: Partial<ClientOptions> = {}) {
  const seen: RecordedRequest[] = [];
  const clock = new FakeClock();
  const fetch = async (url: string, init: FetchInit): Promise<FetchResponse> => {
    const request: RecordedRequest = {
      url,
      method: init.method,
      headers: init.headers,
      body: init.body === undefined ? undefined : JSON.parse(init.body),
      signal: init.signal,
      upgrade: init.upgrade,
    };
    seen.push(request);
    return Promise.race([
      handler(request),
      new Promise<never>((_, reject) => {
        init.signal.addEventListener('abort', () => reject(init.signal.reason), { once: true });
      }),
    ]);
  };
  const client = new Client({
    url: 'http://server.test/',
    token: 'rf_user_secret',
    fetch,
    clock,
    random: () => 0.5,
    ...options,
  });
  return { client, clock, seen };
}

export const json = (value: unknown, init: ResponseInit = {}): Response =>
  new Response(JSON.stringify(value), { headers: { 'content-type': 'application/json' }, ...init });

export const problem = (status: number, body: object, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify({ status, ...body }), {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
  });

const bytes = new TextEncoder();

/** A stream that a test feeds by hand. */
export class FakeStream {
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  closed = false;
  readonly response: Response;

  constructor(signal: AbortSignal, type = 'application/json;stream=watch') {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.closed = true;
      },
    });
    signal.addEventListener('abort', () => {
      if (!this.closed) this.#controller?.error(signal.reason);
      this.closed = true;
    });
    this.response = new Response(body, { headers: { 'content-type': type } });
  }

  /** The same as a stream that goes both ways; what the client writes is kept. */
  twoWay(applied = 'signs-of-life=20, heartbeat=15'): FetchResponse & { readonly written: readonly string[] } {
    const written: string[] = [];
    const headers = new Headers({ ...Object.fromEntries(this.response.headers), 'preference-applied': applied });
    const { body } = this.response;
    return { status: 101, headers, json: () => Promise.resolve(), body, written, write: (text) => written.push(text) };
  }

  /** Text or raw bytes, as they are. */
  push(...chunks: readonly (string | Uint8Array)[]): void {
    for (const chunk of chunks) this.#controller?.enqueue(typeof chunk === 'string' ? bytes.encode(chunk) : chunk);
  }
  /** Whole documents, in one chunk. */
  send(...documents: readonly object[]): void {
    this.push(documents.map((document) => `${JSON.stringify(document)}\n`).join(''));
  }
  end(): void {
    this.closed = true;
    this.#controller?.close();
  }
  cut(error: unknown = new TypeError('terminated')): void {
    this.closed = true;
    this.#controller?.error(error);
  }
}
