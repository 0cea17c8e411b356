/** Owns etcd as a peer: watched by gRPC, as its own clients do, and by its JSON gateway, which is HTTP like ours. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { payload, reached, type Peer, type Written } from './peers.ts';
import { freePort, nowNs, processor, Talker } from './tools.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

export async function startEtcd(folder: string, by: 'gRPC' | 'JSON'): Promise<Peer> {
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
  (await reached(port, server)).destroy();
  const write = async (bytes: number): Promise<Written> => {
    const sent = nowNs();
    const body = JSON.stringify({ key: base64('k'), value: base64(payload(bytes)) });
    const answer = await fetch(`${url}/v3/kv/put`, { method: 'POST', body });
    await answer.text();
    if (!answer.ok) throw new Error(`etcd answered ${answer.status}`);
    return { sent, acknowledged: nowNs() };
  };
  for (let i = 0; ; i += 1) {
    try {
      await write(20);
      break;
    } catch (error) {
      if (i > 100) throw error;
      await sleep(100);
    }
  }
  const created = JSON.stringify({ create_request: { key: base64('k') } });
  const head = `POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: ${created.length}\r\n\r\n`;
  return {
    name: `etcd ${by}`,
    pid: server.pid,
    protocol: by === 'gRPC' ? 'grpc' : 'gateway',
    port,
    // With more of them in flight beside thousands of watchers, it begins to answer 503.
    writers: 8,
    request: by === 'gRPC' ? grpcWatch('k') : Buffer.from(head + created),
    ready: by === 'gRPC' ? '' : '"created":true',
    write,
    stop: () => server.stop('SIGKILL'),
  };
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
