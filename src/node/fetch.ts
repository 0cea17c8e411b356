/**
 * Owns the client's `fetch` to the server on Node's own HTTP client, which loads in a fifth of the time of Node's
 * fetch.
 */
import type { Agent, IncomingMessage } from 'node:http';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { CollectedBytes } from '../client/bytes.ts';
import { RingfenceError } from '../client/error.ts';
import type { ByteReader, ByteStream, Fetch, FetchResponse } from '../client/request.ts';
import { Agent as PlainAgent, request as plain } from './http.ts';

export interface NodeFetchOptions {
  /** Certificates of authorities (PEM) to believe instead of the well-known ones; asked for each connection. */
  readonly authorities?: () => Promise<string>;
  /** Finds the addresses of a host, instead of the system's own way; not asked where the URL names an address. */
  readonly lookup?: LookupFunction;
  /**
   * Called with the remote address of each new connection. The returned function is called when the connection ends.
   */
  readonly onConnection?: (address: string) => () => void;
  /** Milliseconds that a connection may take once the address is known; as long as the system likes unless given. */
  readonly connectTimeout?: number;
  /** Milliseconds for which an idle connection is kept for the next request, if the server does not ask for less; Node's five seconds unless given. */
  readonly keepAliveMs?: number;
  /** Bytes of an answer that is read whole; a longer one is refused, and its connection ended. 128 MiB unless given. */
  readonly largestAnswer?: number;
}

/** The list of the most devices that an organization may have is half as long. */
const defaultLargest = 128 * 1024 * 1024;

/** Like fetch, as far as the client asks of it: no redirect is followed, no encoding is offered. */
export function createNodeFetch({
  authorities,
  lookup,
  onConnection,
  connectTimeout,
  keepAliveMs,
  largestAnswer = defaultLargest,
}: NodeFetchOptions = {}): Fetch {
  const sessions = new TlsSessions();
  // With Node's default of one second for the first probe, the kernel would probe every idle connection each second.
  const pool =
    keepAliveMs === undefined ? undefined : { keepAlive: true, keepAliveMsecs: keepAliveMs, timeout: keepAliveMs };
  const agents = new Map<boolean, Agent>();
  return async (url, { method, headers, body, signal, upgrade }) => {
    const secure = url.startsWith('https:');
    const https = secure ? await import('node:https') : undefined;
    const request = https?.request ?? plain;
    let agent = agents.get(secure);
    if (pool !== undefined && agent === undefined)
      agents.set(secure, (agent = https === undefined ? new PlainAgent(pool) : new https.Agent(pool)));
    const ca = secure ? await authorities?.() : undefined;
    // A resumed session skips the check of the certificate: it holds for this server and these authorities only.
    const partner = secure ? `${new URL(url).host} ${ca ?? ''}` : undefined;
    const session = partner === undefined ? undefined : sessions.get(partner);
    return new Promise((resolve, reject) => {
      const all = upgrade === undefined ? headers : { ...headers, connection: 'Upgrade', upgrade };
      const options = {
        method,
        headers: all,
        signal,
        ...(agent && { agent }),
        ...(ca && { ca }),
        ...(lookup && { lookup }),
        ...(session && { session }),
      };
      const sent = request(url, options, (answer) => {
        // Another address of the name may lead to a server that can work: the next request makes a new connection.
        if ((answer.statusCode ?? 0) >= 502) sent.shouldKeepAlive = false;
        resolve(new NodeResponse(answer, { largest: largestAnswer }));
      });
      sent.on('error', reject);
      if (upgrade !== undefined) {
        sent.on('upgrade', (answer, socket, head) => resolve(upgraded(answer, socket, head, signal)));
      }
      if (partner !== undefined) sent.on('socket', (socket) => sessions.follow(socket as TLSSocket, partner));
      if (connectTimeout !== undefined) sent.on('socket', (socket) => limitConnecting(socket, url, connectTimeout));
      if (onConnection !== undefined) sent.on('socket', (socket) => tellConnection(socket, onConnection));
      sent.end(body);
    });
  };
}

/**
 * The last TLS session with each server. Node's own agent keeps them too, but forgets them with every connection that fails, which is how a server that
 * restarts looks: a whole fleet would come back with full handshakes.
 */
class TlsSessions {
  readonly #sessions = new Map<string, Buffer>();
  readonly #followed = new WeakSet<TLSSocket>();

  get(partner: string): Buffer | undefined {
    return this.#sessions.get(partner);
  }

  /** Keeps the sessions that come on this connection. One that fails in the handshake may be the session's fault. */
  follow(socket: TLSSocket, partner: string): void {
    if (this.#followed.has(socket)) return;
    this.#followed.add(socket);
    const forget = (): void => void this.#sessions.delete(partner);
    socket.on('session', (session) => this.#sessions.set(partner, session));
    socket.once('connect', () => socket.once('error', forget));
    socket.once('secureConnect', () => socket.off('error', forget));
  }
}

export const nodeFetch: Fetch = createNodeFetch();

/** A connection serves many requests, one after the other. */
const told = new WeakSet<Socket>();

function tellConnection(socket: Socket, onConnection: (address: string) => () => void): void {
  if (told.has(socket)) return;
  told.add(socket);
  socket.once('connect', () => {
    const ended = onConnection(socket.remoteAddress ?? '');
    if (socket.destroyed) ended();
    else socket.once('close', ended);
  });
}

/** A dead network answers nothing, and the system would try for minutes, at growing intervals. */
function limitConnecting(socket: Socket, url: string, milliseconds: number): void {
  if (!socket.connecting) return;
  const start = (): void => {
    const timer = setTimeout(() => {
      socket.destroy(new Error(`no connection within ${milliseconds / 1_000} s`));
    }, milliseconds);
    const stop = (): void => clearTimeout(timer);
    socket.once('connect', stop).once('close', stop);
  };
  // The look-up has limits of its own, and one that is given up would go on all the same.
  if (isIP(new URL(url).hostname.replace(/^\[|\]$/g, '')) !== 0) start();
  else socket.once('lookup', start);
}

/** An answer whose connection has become another protocol. It ends with the signal, which Node no longer looks at. */
function upgraded(answer: IncomingMessage, socket: Socket, head: Buffer, signal: AbortSignal): FetchResponse {
  const end = (): void => void socket.destroy();
  signal.addEventListener('abort', end, { once: true });
  socket.once('close', () => signal.removeEventListener('abort', end));
  socket.setTimeout(0);
  if (head.length > 0) socket.unshift(head);
  const response = new NodeResponse(answer, { socket, largest: defaultLargest });
  // Its errors are the body's from now on.
  void response.body;
  if (signal.aborted) end();
  return response;
}

class NodeResponse implements FetchResponse {
  readonly status: number;
  readonly write?: (text: string) => void;
  readonly remote?: string;
  readonly headers: FetchResponse['headers'];
  readonly #bytes: Readable;
  readonly #largest: number;
  #body: NodeBody | undefined;

  /** `socket`: what the connection has become. */
  constructor(answer: IncomingMessage, { socket, largest }: { readonly socket?: Socket; readonly largest: number }) {
    this.#largest = largest;
    this.#bytes = socket ?? answer;
    if (socket !== undefined) this.write = (bytes) => void (socket.writable && socket.write(bytes));
    this.status = answer.statusCode ?? 0;
    const { remoteAddress } = answer.socket;
    if (remoteAddress !== undefined) this.remote = remoteAddress;
    this.headers = {
      get: (name) => {
        const value = answer.headers[name.toLowerCase()];
        return value === undefined ? null : Array.isArray(value) ? value.join(', ') : value;
      },
    };
  }

  async json(): Promise<unknown> {
    const bytes = new CollectedBytes();
    // Leaving the loop early ends the connection.
    for await (const chunk of this.#bytes as AsyncIterable<Buffer>) {
      if (bytes.length + chunk.length > this.#largest) {
        const message = `the answer is longer than ${this.#largest} bytes`;
        throw new RingfenceError({ code: 'document_too_large', message });
      }
      bytes.add(chunk);
    }
    return JSON.parse(new TextDecoder().decode(bytes.take()));
  }

  get body(): ByteStream {
    this.#body ??= new NodeBody(this.#bytes);
    return this.#body;
  }
}

interface PendingRead {
  readonly resolve: (result: { readonly done: boolean; readonly value?: Uint8Array }) => void;
  readonly reject: (why: unknown) => void;
}

/**
 * The body as it comes. Node's own bridge to a web stream does the same, and takes longer for a document than all that the
 * agent makes of it.
 */
class NodeBody implements ByteStream, ByteReader {
  readonly #answer: Readable;
  readonly #chunks: Uint8Array[] = [];
  #end: { readonly error?: unknown } | undefined;
  #waiting: PendingRead | undefined;

  constructor(answer: Readable) {
    this.#answer = answer;
    answer.on('data', (chunk: Uint8Array) => {
      const waiting = this.#taken();
      if (waiting !== undefined) waiting.resolve({ done: false, value: chunk });
      else {
        // No reader is waiting: keep the chunk, and pause the sender until it has been read.
        this.#chunks.push(chunk);
        answer.pause();
      }
    });
    answer.once('end', () => this.#finish({}));
    answer.on('error', (error) => this.#finish({ error }));
    answer.once('close', () => this.#finish({ error: new Error('the connection was closed') }));
  }

  getReader(): ByteReader {
    return this;
  }

  read(): Promise<{ done: boolean; value?: Uint8Array }> {
    const value = this.#chunks.shift();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    if (this.#end !== undefined) {
      return 'error' in this.#end ? Promise.reject(this.#end.error) : Promise.resolve({ done: true });
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      if (this.#answer.isPaused()) this.#answer.resume();
    });
  }

  cancel(): Promise<void> {
    this.#answer.destroy();
    return Promise.resolve();
  }

  #taken(): PendingRead | undefined {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    return waiting;
  }

  #finish(end: { readonly error?: unknown }): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    const waiting = this.#taken();
    if ('error' in end) waiting?.reject(end.error);
    else waiting?.resolve({ done: true });
  }
}
