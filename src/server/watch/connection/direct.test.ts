/** Proves direct writes to the kernel on real sockets: the same bytes in the same order, and reports of full and broken connections. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { learn, directHandle, writeDirect, type Handle } from './direct.ts';

let socket: Socket;
let client: Socket;
const server = createServer();

beforeEach(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [accepted] = (await once(server, 'connection')) as [Socket];
  socket = accepted.on('error', () => {});
});

afterEach(async () => {
  socket.destroy();
  client.destroy();
  server.close();
  await once(server, 'close');
});

function way(): Handle {
  learn(socket);
  socket.write(Buffer.from('first '));
  const handle = directHandle(socket);
  if (handle === undefined) throw new Error('this Node has no direct write');
  return handle;
}

const nobody = { flushed: (): void => expect.unreachable('nobody waits') };

async function everything(): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of client) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

it('is learned from one ordinary write, and bytes of both ways arrive in their order', async () => {
  const handle = way();
  expect(writeDirect(handle, Buffer.from('second '), nobody)).toBe('taken');
  expect(writeDirect(handle, Buffer.from('third '), nobody)).toBe('taken');
  socket.end('last');
  expect((await everything()).toString()).toBe('first second third last');
});

it('tells when the kernel has taken what it did not take at once', async () => {
  const handle = way();
  const much = Buffer.alloc(64 * 1_048_576, 'x');
  const flushed = new Promise<void>((resolve) => {
    expect(writeDirect(handle, much, { flushed: resolve })).toBe('waiting');
  });
  const received = everything();
  await flushed;
  expect(writeDirect(handle, Buffer.from('after'), nobody)).toBe('taken');
  socket.end();
  expect((await received).length).toBe('first '.length + much.length + 'after'.length);
});

it('never uses a request again that is under way, even if nothing seems to wait', async () => {
  const real = way();
  const much = Buffer.alloc(64 * 1_048_576, 'x');
  // As when a reader makes room in the moment between two tries of one write.
  const hasty = {
    writeBuffer: (request, bytes) => real.writeBuffer(request, bytes),
    writeQueueSize: 0,
  } satisfies Handle & {
    writeQueueSize: number;
  };
  const flushed = new Promise<void>((resolve) => {
    expect(writeDirect(hasty, much, { flushed: resolve })).toBe('waiting');
  });
  expect(writeDirect(hasty, much, { flushed: () => {} })).toBe('waiting');
  const received = everything();
  await flushed;
  socket.end();
  expect((await received).length).toBe('first '.length + 2 * much.length);
});

it('lets an end follow what still waits', async () => {
  const much = Buffer.alloc(64 * 1_048_576, 'x');
  expect(writeDirect(way(), much, { flushed: () => {} })).toBe('waiting');
  socket.end('last');
  expect((await everything()).subarray(-5).toString()).toBe('xlast');
});

it('tells nobody of what a closed connection did not take, and fails afterwards', async () => {
  const handle = way();
  expect(writeDirect(handle, Buffer.alloc(64 * 1_048_576), nobody)).toBe('waiting');
  socket.destroy();
  await once(socket, 'close');
  expect(writeDirect(handle, Buffer.from('x'), nobody)).toBe('failed');
});

it('is not taken where a socket looks otherwise', () => {
  way();
  expect(directHandle({ _handle: {} } as unknown as Socket)).toBeUndefined();
  expect(directHandle({ _handle: null } as unknown as Socket)).toBeUndefined();
  expect(directHandle(Object.assign(Object.create(socket) as Socket, { encrypted: true }))).toBeUndefined();
});
