/** Owns a load generator for HTTP that costs little itself: raw sockets, one request at a time on each, answers read by their length. */
import { connect, type Socket } from 'node:net';
import { connect as connectSecured } from 'node:tls';

export interface LoadResult {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly requests: number;
  /** Answers by status. */
  readonly statuses: ReadonlyMap<number, number>;
}

export interface LoadOptions {
  readonly url: string;
  readonly connections: number;
  readonly seconds: number;
  readonly token: string;
  /** The request number `n` of connection `c`. */
  readonly request: (c: number, n: number) => LeanRequest;
}

const headEnd = Buffer.from('\r\n\r\n');

export interface LeanRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
}

export interface LeanAnswer {
  readonly status: number;
  readonly body: string;
}

/** A connection that is asked one thing at a time. */
export class LeanConnection {
  readonly #socket: Socket;
  readonly #head: string;
  #buffered: Buffer = Buffer.alloc(0);
  #resolve: (answer: LeanAnswer) => void = () => {};
  #reject: (error: Error) => void = () => {};
  #over: Error | undefined;

  /** What is asked before it is connected waits in the socket. */
  constructor({ url, token }: { readonly url: string; readonly token: string }) {
    const { protocol, hostname, port, host } = new URL(url);
    this.#head = ` HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n`;
    const to = { host: hostname, port: Number(port), noDelay: true };
    this.#socket = protocol === 'https:' ? connectSecured({ ...to, rejectUnauthorized: false }) : connect(to);
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk));
    this.#socket.on('error', (error) => this.#end(error));
    this.#socket.on('close', () => this.#end(new Error(`${host} closed the connection`)));
  }

  ask({ method, path, body = '' }: LeanRequest): Promise<LeanAnswer> {
    const type = body === '' ? '' : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`;
    return new Promise((resolve, reject) => {
      if (this.#over !== undefined) {
        reject(this.#over);
        return;
      }
      this.#resolve = resolve;
      this.#reject = reject;
      this.#socket.write(`${method} ${path}${this.#head}${type}\r\n${body}`);
    });
  }

  get isOver(): boolean {
    return this.#over !== undefined;
  }

  close(): void {
    this.#socket.end();
  }

  #read(chunk: Buffer): void {
    this.#buffered = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk]);
    const end = this.#buffered.indexOf(headEnd);
    if (end < 0) return;
    const head = this.#buffered.toString('latin1', 0, end);
    const from = end + headEnd.length;
    const to = from + Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#buffered.length < to) return;
    const body = this.#buffered.toString('utf8', from, to);
    this.#buffered = this.#buffered.subarray(to);
    this.#resolve({ status: Number(head.slice(9, 12)), body });
  }

  #end(error: Error): void {
    this.#over ??= error;
    this.#reject(this.#over);
  }
}

/** As many connections as are needed, up to so many; what is asked while all are busy waits for one. */
export class LeanClient {
  readonly #to: { readonly url: string; readonly token: string };
  readonly #most: number;
  readonly #idle: LeanConnection[] = [];
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(to: { readonly url: string; readonly token: string }, most: number) {
    this.#to = to;
    this.#most = most;
  }

  async ask(request: LeanRequest): Promise<LeanAnswer> {
    if (this.#busy === this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#busy += 1;
    const connection = this.#open();
    try {
      return await connection.ask(request);
    } finally {
      this.#idle.push(connection);
      const next = this.#waiting.shift();
      if (next === undefined) this.#busy -= 1;
      else next();
    }
  }

  /** One that the server still holds: those that were idle for long are closed by it. */
  #open(): LeanConnection {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (!idle.isOver) return idle;
    }
    return new LeanConnection(this.#to);
  }

  close(): void {
    for (const connection of this.#idle) connection.close();
  }
}

/** Sends requests on one connection until it is stopped. The time of each response in milliseconds goes to `times`. */
async function drive(
  options: LoadOptions,
  c: number,
  stopAt: number,
  times: number[],
  statuses: Map<number, number>,
): Promise<void> {
  const connection = new LeanConnection(options);
  for (let n = 0; performance.now() < stopAt; n += 1) {
    const sentAt = performance.now();
    const { status } = await connection.ask(options.request(c, n));
    times.push(performance.now() - sentAt);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  connection.close();
}

export async function httpLoad(options: LoadOptions): Promise<LoadResult> {
  const times: number[] = [];
  const statuses = new Map<number, number>();
  const started = performance.now();
  const stopAt = started + options.seconds * 1000;
  await Promise.all(Array.from({ length: options.connections }, (_, c) => drive(options, c, stopAt, times, statuses)));
  const seconds = (performance.now() - started) / 1000;
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
  return { perSecond: times.length / seconds, p50: at(0.5), p99: at(0.99), requests: times.length, statuses };
}
