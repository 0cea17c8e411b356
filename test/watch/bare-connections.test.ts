/** Proves that connections whose first bytes are looked at reach Node's HTTP server unchanged, or serve a stream without it, on real sockets. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BareConnection } from '../../src/server/http/listener/bare-connection.ts';
import { BareConnections } from '../../src/server/http/listener/bare-connections.ts';
import { bareSink, canBeBare } from '../../src/server/watch/connection/bare-sink.ts';
import type { Stream } from '../../src/server/watch/stream.ts';
import { eventually } from '../lib/eventually.ts';

/** Bytes that begin with this are taken. */
const mark = 'S';
let server: Server;
let offered: Buffer[];
let taken: BareConnection[];
let clients: Socket[];

beforeEach(async () => {
  [offered, taken, clients] = [[], [], []];
  server = createServer((request, response) => {
    request.resume().on('end', () => response.end(`${request.method} ${request.url}`));
  });
  BareConnections.of(server, (bytes, connection) => {
    offered.push(bytes);
    if (bytes.toString()[0] !== mark) return false;
    taken.push(connection);
    return true;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  for (const client of clients) client.destroy();
  server.closeAllConnections();
  if (server.listening) await new Promise((resolve) => server.close(resolve));
});

class Client {
  readonly socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay(true);
  text = '';
  isClosed = false;

  constructor() {
    clients.push(this.socket);
    this.socket.on('error', () => {}).on('close', () => (this.isClosed = true));
    this.socket.on('data', (chunk: Buffer) => (this.text += chunk.toString('latin1')));
  }

  says(text: string): Promise<void> {
    return eventually(
      () => `${text} in ${this.text}`,
      () => this.text.includes(text),
    );
  }

  closes(): Promise<void> {
    return eventually('the end of a connection', () => this.isClosed);
  }
}

const connections = (): Promise<number> =>
  new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));

const request = 'POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody';

async function take(): Promise<{ client: Client; connection: BareConnection }> {
  const client = new Client();
  client.socket.write(mark);
  await eventually('a taken connection', () => taken.length > 0);
  const [connection] = taken;
  if (connection === undefined) throw new Error('there is none');
  return { client, connection };
}

describe('a connection that nobody takes', () => {
  it('is served by Node, wherever its first bytes end, and kept alive', async () => {
    const cuts = Array.from({ length: request.length }, (_, index) => index + 1);
    await Promise.all(
      cuts.map(async (cut) => {
        const client = new Client();
        client.socket.write(request.slice(0, cut));
        await eventually('the first bytes', () => offered.some((bytes) => bytes.length === cut));
        client.socket.write(request.slice(cut));
        await client.says('POST /x');
        client.socket.write('GET /again HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
        await client.says('GET /again');
        await client.closes();
      }),
    );
    await expect.poll(connections).toBe(0);
  });

  it('is served in order when requests come together', async () => {
    const client = new Client();
    client.socket.write(`${request}GET /two HTTP/1.1\r\nHost: a\r\n\r\n`);
    await client.says('GET /two');
    expect(client.text).toMatch(/POST \/x[^]*GET \/two$/);
  });

  it('is left to Node when it says nothing, and ended by it', async () => {
    let given = 0;
    server.on('connection', () => (given += 1));
    const silent = Array.from({ length: 120 }, () => new Client());
    await expect.poll(() => given).toBe(silent.length);
    expect(offered).toEqual([]);
    server.closeAllConnections();
    await Promise.all(silent.map((client) => client.closes()));
    await expect.poll(connections).toBe(0);
  });

  it('may close before it says anything', async () => {
    const client = new Client();
    client.socket.end();
    await client.closes();
    await expect.poll(connections).toBe(0);
  });
});

describe('a connection that is taken', () => {
  it('goes to Node with all that came, if its taker gives it away after all', async () => {
    const { client, connection } = await take();
    client.socket.write('ET /later HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually('more bytes', () => connection.handle.reading === false);
    client.socket.write(request);
    connection.handOver();
    await client.says('400 Bad Request');
    await client.closes();
    await expect.poll(connections).toBe(0);
  });

  it('is counted, keeps a closing server open, and ends with its client', async () => {
    const { client, connection } = await take();
    connection.keep();
    expect(await connections()).toBe(1);
    let isClosed = false;
    server.close(() => (isClosed = true));
    const ended = new Promise<void>((resolve) => (connection.listener = { closed: resolve }));
    expect(isClosed).toBe(false);
    client.socket.end();
    await ended;
    await eventually('the close of the server', () => isClosed);
  });

  it('is answered by Node, if its taker gives it away, also when the client sends nothing more', async () => {
    const client = new Client();
    client.socket.end(`${mark}ET / HTTP/1.1\r\nHost: a\r\n\r\n`);
    await eventually('the end of what is sent', () => taken[0]?.handle.reading === false);
    expect(client.isClosed).toBe(false);
    taken[0]?.handOver();
    await client.says('400 Bad Request');
    await client.closes();
    await expect.poll(connections).toBe(0);
  });

  it('is no stream when the client sends nothing more', async () => {
    const { client, connection } = await take();
    client.socket.end();
    await eventually('the end of what is sent', () => connection.handle.reading === false);
    connection.keep();
    expect(connection.isOver).toBe(true);
    await client.closes();
    await expect.poll(connections).toBe(0);
  });

  it('ends with all others while its taker has not decided', async () => {
    const { client, connection } = await take();
    server.closeAllConnections();
    await client.closes();
    expect(connection.isOver).toBe(true);
    connection.handOver();
    connection.keep();
  });
});

describe('a stream without a socket', () => {
  /** As much of a stream as its connection tells. */
  class Told {
    flushes = 0;
    closes = 0;
    flushed(): void {
      this.flushes += 1;
    }
    closed(): void {
      this.closes += 1;
    }
  }

  async function open() {
    const { client, connection } = await take();
    expect(canBeBare(connection), 'this Node has what it needs').toBe(true);
    connection.keep();
    const sink = bareSink(connection);
    const told = new Told();
    sink.connect(told as unknown as Stream);
    return { client, connection, sink, told };
  }

  it('sends bytes in their order, alone, together and too many for one write, and its end', async () => {
    const { client, sink, told, connection } = await open();
    expect(sink.write([Buffer.from('one ')])).toBe(true);
    expect(sink.write([Buffer.from('two '), Buffer.from('three ')])).toBe(true);
    expect(connection.isOver).toBe(false);
    sink.write(Array.from({ length: 9 }, (_, index) => Buffer.from(`part${index} `)));
    await client.says('part8');
    expect(connection.isOver, 'there is no socket').toBe(false);
    expect(sink.write([Buffer.from('four ')])).toBe(true);
    sink.end(Buffer.from('end'));
    await client.closes();
    expect(client.text).toMatch(/^one two three part0 .*part8 four end$/);
    await eventually('to be told', () => told.closes === 1);
    await expect.poll(connections).toBe(0);
  });

  it('tells when the kernel has taken what it did not take at once, and may end before', async () => {
    const { client, sink, told } = await open();
    client.socket.pause();
    const much = Buffer.alloc(32 * 1_048_576, 'x');
    expect(sink.write([much])).toBe(false);
    client.socket.resume();
    await eventually('to be told', () => told.flushes === 1);
    client.socket.pause();
    expect(sink.write([much])).toBe(false);
    sink.end(Buffer.from('end'));
    client.socket.resume();
    await client.closes();
    expect(client.text.length).toBe(2 * much.length + 3);
    expect(client.text.endsWith('xend')).toBe(true);
  });

  it('sends parts in their order that the kernel does not take at once, and tells when the last has gone', async () => {
    const { client, sink, told, connection } = await open();
    client.socket.pause();
    const parts = Array.from('abcdefgh', (letter) => Buffer.alloc(4 * 1_048_576, letter));
    // The same bytes again, as in listings that are shared.
    const all = [...parts, ...parts.slice(0, 1), ...parts.slice(-1)];
    expect(sink.write(all)).toBe(false);
    expect(told.flushes).toBe(0);
    client.socket.resume();
    await eventually('to be told', () => told.flushes > 0);
    expect(sink.write([Buffer.from('after')])).toBe(true);
    await client.says('after');
    expect(told.flushes).toBe(1);
    expect(client.text === `${Buffer.concat(all).toString('latin1')}after`).toBe(true);
    expect(connection.isOver).toBe(false);
  });

  it.each(['end', 'resetAndDestroy'] as const)('ends with its client, by %s, whatever else it said', async (how) => {
    const { client, sink, told } = await open();
    client.socket.write('more');
    client.socket[how]();
    await eventually('to be told', () => told.closes === 1);
    expect(sink.write([Buffer.from('late')])).toBe(false);
    sink.end(Buffer.from('late'));
    sink.destroy();
    await expect.poll(connections).toBe(0);
  });

  it('ends at once when it is told to, and one that is gone already is told so', async () => {
    const { client, sink, connection } = await open();
    sink.destroy();
    await client.closes();
    const late = new Told();
    bareSink(connection).connect(late as unknown as Stream);
    await expect.poll(() => late.closes).toBe(1);
  });
});
