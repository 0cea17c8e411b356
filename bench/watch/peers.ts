/** Owns the peers of the watch benchmark: programs that push one change to many, each behind the same small interface. */
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, marker, nowNs, processor, Talker, type Load } from './tools.ts';

/** Moments, in nanoseconds. */
export interface Written {
  readonly sent: number;
  readonly acknowledged: number;
}

export interface Peer {
  readonly name: string;
  readonly pid: number;
  readonly protocol: 'http' | 'nats' | 'grpc';
  readonly port: number;
  /** What opens a stream, and the text that says it is open. */
  readonly request: Buffer;
  readonly ready: string;
  /** Writes one document of about this many bytes. */
  write(bytes: number): Promise<Written>;
  stop(): Promise<void>;
}

/** A document's text: its marker, filled up. */
export const payload = (bytes: number): string => marker().padEnd(bytes, 'x');

export async function startNats(): Promise<Peer> {
  const port = await freePort();
  const server = new Talker(['nats-server', '-a', '127.0.0.1', '-p', String(port)], processor.server);
  const socket = await reached(port);
  socket.write('CONNECT {"verbose":false,"pedantic":false}\r\n');
  socket.on('data', (chunk: Buffer) => {
    if (chunk.includes('PING')) socket.write('PONG\r\n');
  });
  return {
    name: 'NATS',
    pid: server.pid,
    protocol: 'nats',
    port,
    request: Buffer.from('CONNECT {"verbose":false,"pedantic":false}\r\nSUB bench 1\r\nPING\r\n'),
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

export async function startEtcd(folder: string): Promise<Peer> {
  const [port, peerPort] = [await freePort(), await freePort()];
  const data = join(folder, `etcd-${port}`);
  mkdirSync(data);
  const url = `http://127.0.0.1:${port}`;
  const options = [
    ['--data-dir', data],
    ['--listen-client-urls', url],
    ['--advertise-client-urls', url],
    ['--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
    ['--initial-advertise-peer-urls', `http://127.0.0.1:${peerPort}`],
    ['--initial-cluster', `default=http://127.0.0.1:${peerPort}`],
    ['--log-level', 'error'],
  ].flat();
  const server = new Talker(['etcd', ...options], processor.server, { ETCD_UNSUPPORTED_ARCH: process.arch });
  (await reached(port)).destroy();
  const key = Buffer.from('k').toString('base64');
  const write = async (bytes: number): Promise<Written> => {
    const sent = nowNs();
    const value = Buffer.from(payload(bytes)).toString('base64');
    const answer = await fetch(`${url}/v3/kv/put`, { method: 'POST', body: JSON.stringify({ key, value }) });
    await answer.text();
    if (!answer.ok) throw new Error(`etcd answered ${answer.status}`);
    return { sent, acknowledged: nowNs() };
  };
  for (let i = 0; ; i += 1) {
    try {
      await write(10);
      break;
    } catch (error) {
      if (i > 100) throw error;
      await sleep(100);
    }
  }
  return {
    name: 'etcd (gRPC)',
    pid: server.pid,
    protocol: 'grpc',
    port,
    request: grpcWatch('k'),
    ready: '',
    write,
    stop: () => server.stop('SIGKILL'),
  };
}

async function reached(port: number): Promise<Socket> {
  for (let i = 0; ; i += 1) {
    const socket = connect(port, '127.0.0.1');
    const up = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    if (up) return socket.on('error', () => {});
    if (i > 200) throw new Error(`nobody listens on ${port}`);
    await sleep(50);
  }
}

/** An HTTP/2 connection with one gRPC call that watches a key, as bytes: preface, settings, a large window, headers, the message. */
function grpcWatch(key: string): Buffer {
  const frame = (type: number, flags: number, stream: number, body: Buffer): Buffer => {
    const head = Buffer.alloc(9);
    head.writeUIntBE(body.length, 0, 3);
    head.writeUInt8(type, 3);
    head.writeUInt8(flags, 4);
    head.writeUInt32BE(stream, 5);
    return Buffer.concat([head, body]);
  };
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  const settings = Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff]);
  const headers = Buffer.concat([
    Buffer.from([0x83, 0x86, 0x04]),
    text('/etcdserverpb.Watch/Watch'),
    Buffer.from([0x01]),
    text('bench'),
    Buffer.from([0x0f, 0x10]),
    text('application/grpc'),
    Buffer.from([0x00]),
    text('te'),
    text('trailers'),
  ]);
  const create = Buffer.concat([Buffer.from([0x0a]), text(key)]);
  const message = Buffer.concat([Buffer.from([0x0a, create.length]), create]);
  const data = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);
  return Buffer.concat([
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    frame(4, 0, 0, settings),
    frame(8, 0, 0, Buffer.from([0x7f, 0xff, 0, 0])),
    frame(1, 4, 1, headers),
    frame(0, 0, 1, data),
  ]);
}

/** The least there is: a C program that writes the same bytes to every socket. */
export async function startFloor(program: string, streams: number): Promise<Peer & { talker: Talker }> {
  const port = await freePort();
  const talker = new Talker([program, String(port), String(streams)], processor.server);
  await talker.hears('listening');
  return {
    name: 'floor (C)',
    talker,
    pid: talker.pid,
    protocol: 'http',
    port,
    request: Buffer.from('POST / HTTP/1.1\r\n\r\n'),
    ready: '"tail"',
    async write(bytes) {
      talker.say(`send 1 ${bytes}`);
      const sent = Number((await talker.hears('sent')).split(' ')[1]);
      return { sent, acknowledged: sent };
    },
    stop: () => talker.stop('SIGKILL'),
  };
}

export type { Load };
