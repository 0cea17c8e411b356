/**
 * Proves which connections a process keeps, with real sockets: limits by address and in total, idle timeouts, and which
 * connection is closed for a new one.
 */
import { once } from 'node:events';
import { createServer, request, type RequestListener, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Connections, spareConnections, type ConnectionEnd, type ConnectionLimits } from './connections.ts';
import { connectionsWithin, openFilesLimit } from './descriptors.ts';

/** Resolves when it has ended, also by a reset. */
const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.destroyed) resolve();
    else socket.once('close', () => resolve());
  });

interface Guarded {
  readonly connections: Connections;
  readonly ends: ConnectionEnd[];
  /** Connects from an address of this machine, and waits until the server has accepted or refused. */
  readonly open: (from?: string) => Promise<Socket>;
  /** Sends a request on a new connection; returns the status, or why there is none. */
  readonly ask: (path: string, from?: string) => Promise<number | string>;
}

async function guarded(
  limits: Partial<ConnectionLimits>,
  options: { proxies?: string[]; answers?: RequestListener } = {},
) {
  const ends: ConnectionEnd[] = [];
  const connections = new Connections({
    limits: { total: 1_000, perAddress: 1_000, firstByteMs: 600_000, ...limits },
    trustedProxies: options.proxies ?? [],
    onEnd: (why) => ends.push(why),
  });
  const server: Server = createServer(
    options.answers ?? ((asked, response) => (asked.url === '/hold' ? response.flushHeaders() : response.end('x'))),
  );
  connections.guard(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let accepted = 0;
  server.on('connection', () => (accepted += 1));
  const sockets: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    connections.close();
    server.close();
    await once(server, 'close');
  });
  const guard: Guarded = {
    connections,
    ends,
    async open(from = '127.0.0.1') {
      const before = accepted;
      const socket = connect({ port, host: '127.0.0.1', localAddress: from });
      sockets.push(socket);
      socket.on('error', () => {});
      await expect.poll(() => accepted > before, { interval: 2 }).toBe(true);
      return socket;
    },
    ask: (path, from = '127.0.0.1') =>
      new Promise((resolve) => {
        const asked = request({ port, host: '127.0.0.1', localAddress: from, path, agent: false }, (response) => {
          sockets.push(response.socket);
          resolve(response.statusCode ?? 0);
          response.resume();
        });
        asked.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
        asked.end();
      }),
  };
  return guard;
}

test('at the bound of an address its longest waiting connection gives way, and other addresses are not concerned', async () => {
  const { open, ask, connections, ends } = await guarded({ perAddress: 3 });
  const other = await open('127.0.0.2');
  const [first, second] = [await open(), await open(), await open()];
  expect(await ask('/')).toBe(200);
  await closed(first);
  expect(ends).toEqual(['address_limit']);
  expect([second?.destroyed, other.destroyed]).toEqual([false, false]);
  expect(connections.size).toBeLessThanOrEqual(4);
});

test('a connection with a request under way gives way to nobody: at the bound of its address new ones are refused', async () => {
  const { ask, ends } = await guarded({ perAddress: 2 });
  expect([await ask('/hold'), await ask('/hold')]).toEqual([200, 200]);
  expect(await ask('/')).toBe('ECONNRESET');
  expect(ends).toEqual(['address_limit']);
  expect(await ask('/', '127.0.0.2')).toBe(200);
});

test('one address never takes all connections of the process', async () => {
  const { ask } = await guarded({ total: 4, perAddress: 1_000 });
  expect([await ask('/hold'), await ask('/hold'), await ask('/hold')]).toEqual([200, 200, 200]);
  expect(await ask('/')).toBe('ECONNRESET');
  expect(await ask('/', '127.0.0.2')).toBe(200);
});

test('connections of a trusted proxy count in all only', async () => {
  const { ask, ends } = await guarded({ perAddress: 1 }, { proxies: ['127.0.0.0/30'] });
  expect([await ask('/hold'), await ask('/hold'), await ask('/hold')]).toEqual([200, 200, 200]);
  expect(ends).toEqual([]);
  expect([await ask('/hold', '127.0.0.9'), await ask('/', '127.0.0.9')]).toEqual([200, 'ECONNRESET']);
});

test('a process that is full of requests keeps spare connections for short ones, and marks them', async () => {
  const marks: boolean[] = [];
  const total = 4;
  const { ask, open, connections } = await guarded(
    { total },
    {
      proxies: ['127.0.0.1'],
      answers: (asked, response) => {
        marks.push(connections.isSpare(asked.socket));
        if (asked.url === '/hold') response.flushHeaders();
        else response.end();
      },
    },
  );
  for (let held = 0; held < total; held += 1) expect(await ask('/hold')).toBe(200);
  expect(await ask('/')).toBe(200);
  expect(marks).toEqual([false, false, false, false, true]);
  // Silent ones do not keep the spare places: the longest waiting gives way.
  for (let silent = 0; silent < 2 * spareConnections; silent += 1) await open();
  expect(await ask('/')).toBe(200);
  expect(connections.size).toBeLessThanOrEqual(total + spareConnections);
});

test('a connection that says nothing is ended, and one that has begun to speak is not', async () => {
  const { open, ends, connections } = await guarded({ firstByteMs: 50 });
  const speaking = await open();
  speaking.write('G');
  const silent = await open();
  await closed(silent);
  expect(ends).toEqual(['silent']);
  expect([speaking.destroyed, connections.size]).toEqual([false, 1]);
});

test('nothing is left of connections that have ended, whoever ended them', async () => {
  const { open, ask, connections } = await guarded({ perAddress: 5 });
  for (let turn = 0; turn < 20; turn += 1) {
    const socket = await open();
    if (turn % 2 === 0) socket.destroy();
    else await ask('/');
  }
  for (let turn = 0; turn < 8; turn += 1) await open();
  expect(connections.size).toBeLessThanOrEqual(5);
  connections.close();
  await expect.poll(() => connections.size).toBe(0);
});

test('connections fit into the open files that a process may have, less what it needs itself', () => {
  const text =
    'Limit      Soft Limit  Hard Limit  Units\nMax open files            500                  500                  files\n';
  expect(openFilesLimit(text)).toBe(500);
  expect(openFilesLimit(text.replace(/500/g, 'unlimited'))).toBeUndefined();
  expect(connectionsWithin(500, 40, 24)).toBe(500 - 40 - 24 - 32 - spareConnections);
  expect(connectionsWithin(64, 40, 24)).toBe(16);
  expect(connectionsWithin(undefined, 40, 24)).toBe(1_000_000);
});
