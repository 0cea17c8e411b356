/** Owns a load generator for HTTP that costs little itself: raw sockets, one request at a time on each, answers read by their length. */
import { connect, type Socket } from 'node:net';

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
  readonly request: (
    c: number,
    n: number,
  ) => { readonly method: string; readonly path: string; readonly body?: string };
}

const headEnd = Buffer.from('\r\n\r\n');

/** Sends on one connection until told to stop; each answer's time in milliseconds goes to `times`. */
function drive(
  options: LoadOptions,
  c: number,
  stopAt: number,
  times: number[],
  statuses: Map<number, number>,
): Promise<void> {
  const { hostname, port, host } = new URL(options.url);
  return new Promise((resolve, reject) => {
    const socket: Socket = connect({ host: hostname, port: Number(port), noDelay: true });
    let buffered: Buffer = Buffer.alloc(0);
    let sentAt = 0;
    let n = 0;
    const next = (): void => {
      if (performance.now() >= stopAt) {
        socket.end();
        resolve();
        return;
      }
      const { method, path, body = '' } = options.request(c, n);
      n += 1;
      sentAt = performance.now();
      const type =
        body === '' ? '' : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`;
      socket.write(
        `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${options.token}\r\n${type}\r\n${body}`,
      );
    };
    socket.on('connect', next);
    socket.on('error', reject);
    socket.on('data', (chunk: Buffer) => {
      buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
      const end = buffered.indexOf(headEnd);
      if (end < 0) return;
      const head = buffered.toString('latin1', 0, end);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (buffered.length < end + 4 + length) return;
      buffered = buffered.subarray(end + 4 + length);
      times.push(performance.now() - sentAt);
      const status = Number(head.slice(9, 12));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      next();
    });
  });
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
