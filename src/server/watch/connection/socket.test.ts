/** Proves a stream's own connection on real sockets: bytes in order, backpressure of a slow reader, and the end from either side. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ConnectedSink } from '../opening.ts';
import type { Stream } from '../stream.ts';
import { takeOver } from './socket.ts';

let server: Server;
let client: Socket;
let sink: ConnectedSink;
let received: string;
let stream: { readonly flushed: () => void; readonly closed: () => void };
const connectStream = (): void => sink.connect(stream as unknown as Stream);

beforeEach(async () => {
  stream = { flushed: vi.fn(), closed: vi.fn() };
  received = '';
  server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
  client.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const [request, response] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
  await once(request.resume(), 'end');
  sink = takeOver(request, response);
  connectStream();
});

afterEach(async () => {
  client.destroy();
  await new Promise((resolve) => server.close(resolve));
});

const isClosed = (): Promise<void> => vi.waitFor(() => expect(client.closed).toBe(true), 10_000);
const says = (text: string): Promise<void> => vi.waitFor(() => expect(received).toContain(text), 10_000);

it('sends bytes in their order, alone, together and too many for one write, and its end', async () => {
  expect(sink.write([Buffer.from('one ')])).toBe(true);
  expect(sink.write([Buffer.from('two '), Buffer.from('three ')])).toBe(true);
  sink.write(Array.from({ length: 9 }, (_, index) => Buffer.from(`part${index} `)));
  await says('part8');
  sink.write([Buffer.from('four ')]);
  sink.end(Buffer.from('end'));
  await isClosed();
  expect(received).toMatch(/^one two three part0 .*part8 four end$/);
  await vi.waitFor(() => expect(stream.closed).toHaveBeenCalledTimes(1), { timeout: 60_000 });
});

it('reports when the kernel has taken what it did not take at once, and may end before', async () => {
  client.pause();
  const much = Buffer.alloc(32 * 1_048_576, 'x');
  expect(sink.write([much])).toBe(false);
  expect(stream.flushed).not.toHaveBeenCalled();
  client.resume();
  await vi.waitFor(() => expect(stream.flushed).toHaveBeenCalledTimes(1), 10_000);
  client.pause();
  expect(sink.write([much])).toBe(false);
  sink.end(Buffer.from('end'));
  client.resume();
  await isClosed();
  expect(received.length).toBe(2 * much.length + 3);
  expect(received.endsWith('xend')).toBe(true);
});

it('sends parts in their order that the kernel does not take at once, and reports when the last has gone', async () => {
  client.pause();
  const parts = Array.from('abcdefgh', (letter) => Buffer.alloc(4 * 1_048_576, letter));
  // The same bytes again, as in listings that are shared.
  const all = [...parts, ...parts.slice(0, 1), ...parts.slice(-1)];
  expect(sink.write(all)).toBe(false);
  expect(stream.flushed).not.toHaveBeenCalled();
  client.resume();
  await vi.waitFor(() => expect(stream.flushed).toHaveBeenCalled(), 10_000);
  expect(sink.write([Buffer.from('after')])).toBe(true);
  await says('after');
  expect(stream.flushed).toHaveBeenCalledTimes(1);
  expect(received === `${Buffer.concat(all).toString('latin1')}after`).toBe(true);
});

it.each(['end', 'resetAndDestroy'] as const)('ends with its client, by %s, whatever else it said', async (how) => {
  client.write('more');
  client[how]();
  await vi.waitFor(() => expect(stream.closed).toHaveBeenCalledTimes(1), { timeout: 60_000 });
  expect(sink.write([Buffer.from('late')])).toBe(false);
  sink.end(Buffer.from('late'));
  sink.destroy();
});

it('ends at once by destroy, and a stream that is connected afterwards hears of the end', async () => {
  sink.destroy();
  await isClosed();
  await vi.waitFor(() => expect(stream.closed).toHaveBeenCalledTimes(1), { timeout: 60_000 });
  connectStream();
  await vi.waitFor(() => expect(stream.closed).toHaveBeenCalledTimes(2), { timeout: 60_000 });
});
