/** Owns NATS as a peer: its core, which forgets what it has sent, and its key-value store on JetStream, which keeps it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect as connectSecured } from 'node:tls';
import { join } from 'node:path';
import { once } from 'node:events';
import { payload, reached, type Peer } from './peers.ts';
import { freePort, nowNs, processor, Talker } from './tools.ts';

const hello = 'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n';

async function start(args: readonly string[]): Promise<{ server: Talker; port: number; socket: Socket }> {
  const port = await freePort();
  const server = new Talker(['nats-server', '-a', '127.0.0.1', '-p', String(port), ...args], processor.server);
  const socket = await reached(port, server);
  return { server, port, socket };
}

/** After its first line, in the clear, a server with TLS waits for the handshake. */
async function secure(socket: Socket): Promise<Socket> {
  if (socket.readableLength === 0) await once(socket, 'data');
  const secured = connectSecured({ socket, rejectUnauthorized: false });
  await once(secured, 'secureConnect');
  return secured.on('error', () => {});
}

/** Its two seconds for a handshake are too few where thousands come at once on a busy machine. */
function configured(folder: string, { cert, key }: { readonly cert: string; readonly key: string }): readonly string[] {
  const file = join(folder, 'nats.conf');
  writeFileSync(file, `tls { cert_file: "${cert}", key_file: "${key}", timeout: 60 }\nauthorization { timeout: 60 }\n`);
  return ['-c', file];
}

export async function startNats(bench?: {
  readonly folder: string;
  readonly tls: { readonly cert: string; readonly key: string };
}): Promise<Peer> {
  const tls = bench?.tls;
  const files = bench === undefined ? [] : configured(bench.folder, bench.tls);
  const { server, port, socket: opened } = await start(files);
  const socket = tls === undefined ? opened : await secure(opened);
  socket.write(hello);
  socket.on('data', (chunk: Buffer) => {
    if (chunk.includes('PING')) socket.write('PONG\r\n');
  });
  return {
    name: 'NATS core',
    pid: server.pid,
    isSecured: tls !== undefined,
    protocol: 'nats',
    port,
    writers: 128,
    request: Buffer.from(`${hello}SUB bench 1\r\nPING\r\n`),
    ready: 'PONG',
    async write(bytes) {
      const text = payload(bytes);
      const sent = nowNs();
      // There is no acknowledgement: the moment of sending counts.
      if (!socket.write(`PUB bench ${text.length}\r\n${text}\r\n`)) await once(socket, 'drain');
      return { sent, acknowledged: sent };
    },
    async stop() {
      socket.destroy();
      await server.stop('SIGKILL');
    },
  };
}

/** Requests over one connection, each with an inbox of its own. */
class Requests {
  readonly #socket: Socket;
  readonly #waiting = new Map<string, (text: string) => void>();
  #made = 0;
  #rest = '';

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.write('SUB _INBOX.bench.* 1\r\n');
    socket.on('data', (chunk: Buffer) => this.#read(chunk.toString('latin1')));
  }

  ask(subject: string, body: string): Promise<string> {
    const inbox = String((this.#made += 1));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`NATS does not answer ${subject}`)), 20_000);
      this.#waiting.set(inbox, (text) => {
        clearTimeout(timer);
        resolve(text);
      });
      this.#socket.write(`PUB ${subject} _INBOX.bench.${inbox} ${body.length}\r\n${body}\r\n`);
    });
  }

  #read(text: string): void {
    this.#rest += text;
    for (;;) {
      const end = this.#rest.indexOf('\r\n');
      if (end < 0) return;
      const line = this.#rest.slice(0, end);
      const inbox = /^H?MSG _INBOX\.bench\.(\d+) /.exec(line)?.[1];
      let next = end + 2;
      if (inbox !== undefined) {
        next += Number(line.slice(line.lastIndexOf(' ') + 1)) + 2;
        if (this.#rest.length < next) return;
        this.#waiting.get(inbox)?.(this.#rest.slice(end + 2, next - 2));
        this.#waiting.delete(inbox);
      } else if (line === 'PING') this.#socket.write('PONG\r\n');
      this.#rest = this.#rest.slice(next);
    }
  }
}

/** Several keys with some history each: with one of each, a watcher that lags is spared what was overwritten meanwhile. */
const [keys, history] = [128, 64];

export async function startNatsKv(folder: string): Promise<Peer> {
  const data = join(folder, `nats-${Date.now()}`);
  mkdirSync(data);
  const { server, port, socket } = await start(['-js', '-sd', data]);
  socket.write(hello);
  const requests = new Requests(socket);
  const made = await requests.ask(
    '$JS.API.STREAM.CREATE.KV_bench',
    JSON.stringify({
      name: 'KV_bench',
      subjects: ['$KV.bench.>'],
      retention: 'limits',
      storage: 'file',
      discard: 'new',
      max_msgs_per_subject: history,
      max_msgs: -1,
      max_bytes: -1,
      max_age: 0,
      max_consumers: -1,
      num_replicas: 1,
      allow_rollup_hdrs: true,
      deny_delete: true,
      allow_direct: true,
    }),
  );
  if (!made.includes('stream_create_response') || made.includes('"error"')) throw new Error(`NATS KV: ${made}`);
  // What a client's watch of a bucket is: an ordered consumer that pushes.
  const consumer = JSON.stringify({
    stream_name: 'KV_bench',
    config: {
      deliver_subject: '_INBOX.w.########',
      deliver_policy: 'last_per_subject',
      filter_subject: '$KV.bench.>',
      ack_policy: 'none',
      max_deliver: 1,
      ack_wait: 79_200_000_000_000,
      replay_policy: 'instant',
      flow_control: true,
      idle_heartbeat: 5_000_000_000,
      num_replicas: 1,
      mem_storage: true,
    },
  });
  const create = `PUB $JS.API.CONSUMER.CREATE.KV_bench _INBOX.r.######## ${consumer.length}\r\n${consumer}\r\n`;
  let written = 0;
  return {
    name: 'NATS KV',
    pid: server.pid,
    protocol: 'nats',
    port,
    writers: 128,
    request: Buffer.from(`${hello}SUB _INBOX.w.######## 1\r\nSUB _INBOX.r.######## 2\r\n${create}`),
    ready: '"num_pending"',
    async write(bytes) {
      const text = payload(bytes);
      const key = (written += 1) % keys;
      const sent = nowNs();
      const answer = await requests.ask(`$KV.bench.k${key}`, text);
      if (!answer.includes('"seq"')) throw new Error(`NATS KV: ${answer}`);
      return { sent, acknowledged: nowNs() };
    },
    async stop() {
      socket.destroy();
      await server.stop('SIGKILL');
    },
  };
}
