/** Proves one delivery attempt against a real HTTP server: what arrives, what counts as delivered, and where nothing is ever sent. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { readWebhookHost } from '../limits/webhook-hosts.ts';
import type { Address } from './resolve.ts';
import { send } from './send.ts';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

async function receiver(answer: RequestListener): Promise<string> {
  const listening = (server = createServer(answer));
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

const message = (url: string) => ({ url, body: '{"a":1}', headers: { 'webhook-id': 'x' } });
const attempt = (url: string, allowed: readonly string[], lookup?: (host: string) => Promise<readonly Address[]>) =>
  send(message(url), { hosts: allowed.map((text) => readWebhookHost(text)), timeoutMs: 5_000, lookup });

describe('an attempt', () => {
  it('posts the body with its headers, to the host by its name', async () => {
    const seen: { request?: IncomingMessage; body: string } = { body: '' };
    const where = await receiver((request, response) => {
      seen.request = request;
      request.on('data', (chunk: Buffer) => (seen.body += chunk.toString()));
      request.on('end', () => response.writeHead(204).end());
    });
    expect(await attempt(`http://${where}/hook?x=1`, [`http://${where}`])).toBeUndefined();
    expect(seen.body).toBe('{"a":1}');
    expect(seen.request?.method).toBe('POST');
    expect(seen.request?.url).toBe('/hook?x=1');
    expect(seen.request?.headers).toMatchObject({ host: where, 'webhook-id': 'x', 'content-length': '7' });
  });

  it.each([
    [500, 'status_500'],
    [404, 'status_404'],
    [301, 'redirect'],
    [307, 'redirect'],
  ] as const)('that is answered with %i failed: %s', async (status, failure) => {
    let requests = 0;
    const where = await receiver((_, response) => {
      requests += 1;
      response.writeHead(status, { location: '/elsewhere' }).end();
    });
    expect(await attempt(`http://${where}/`, [`http://${where}`])).toBe(failure);
    expect(requests).toBe(1);
  });

  it('ends when its time is over, whatever the receiver does', async () => {
    const where = await receiver(() => {});
    const hosts = [readWebhookHost(`http://${where}`)];
    expect(await send(message(`http://${where}/`), { hosts, timeoutMs: 50 })).toBe('timeout');
  });

  it('waits for no end of an answer that has none', async () => {
    const where = await receiver((_, response) => {
      response.writeHead(200);
      setInterval(() => response.write('x'), 1).unref();
    });
    expect(await attempt(`http://${where}/`, [`http://${where}`])).toBeUndefined();
  });

  it('that finds nobody failed', async () => {
    const where = await receiver(() => {});
    server?.close();
    await new Promise((resolve) => server?.on('close', resolve));
    expect(await attempt(`http://${where}/`, [`http://${where}`])).toBe('not_connected');
  });
});

/** A receiver that does what it likes with a connection. `closed` counts the connections that have ended. */
async function hostileReceiver(does: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const state = {
    where: '',
    opened: 0,
    closed: 0,
    /** Reads again, so that it notices the end. */
    resume: () => sockets.forEach((socket) => socket.resume()),
  };
  const listening = createTcpServer({ allowHalfOpen: true }, (socket) => {
    state.opened += 1;
    sockets.add(socket);
    socket.on('error', () => {});
    // A peer that is gone shows as the end of what it sends, or as an error; either way its side is closed.
    socket.on('end', () => socket.destroy());
    socket.on('close', () => (state.closed += 1));
    does(socket);
  });
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    listening.close();
  });
  state.where = `127.0.0.1:${(listening.address() as AddressInfo).port}`;
  return state;
}

/** Sends it once a request has begun to come, and again until the connection is gone. */
const again =
  (text: string, first = '') =>
  (socket: Socket): void => {
    socket.once('data', () => {
      socket.write(first);
      const timer = setInterval(() => socket.write(text), 1);
      socket.on('close', () => clearInterval(timer));
    });
    socket.resume();
  };
const once =
  (text: string, then: (socket: Socket) => void = () => {}) =>
  (socket: Socket): void => {
    socket.once('data', () => socket.write(text, () => then(socket)));
  };

describe('an attempt at a hostile receiver ends, and so does its connection', () => {
  const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n';
  it.each<[string, (socket: Socket) => void, string | undefined, string?]>([
    ['switches protocols', once(switching), 'status_101'],
    ['switches protocols and talks on', again('x', switching), 'status_101'],
    ['switches protocols without naming one', once('HTTP/1.1 101 Switching Protocols\r\n\r\n'), 'status_101'],
    ['sends interim answers for ever', again('HTTP/1.1 103 Early Hints\r\n\r\n'), 'bad_answer'],
    ['asks to go on for ever', again('HTTP/1.1 100 Continue\r\n\r\n'), 'bad_answer'],
    ['sends headers for ever', again(`x: ${'y'.repeat(1_000)}\r\n`, 'HTTP/1.1 200 OK\r\n'), 'not_connected'],
    ['drips headers', again('x', 'HTTP/1.1 200 OK\r\nx: '), 'timeout'],
    ['sends half of a header', once('HTTP/1.1 200 OK\r\nx'), 'timeout'],
    ['ends its side without an answer', once('', (socket) => socket.end()), 'not_connected'],
    ['ends its side in a header', once('HTTP/1.1 200 OK\r\nx', (socket) => socket.end()), 'not_connected'],
    ['never reads', (socket) => socket.pause(), 'timeout'],
    ['resets the connection', (socket) => socket.resetAndDestroy(), 'not_connected'],
    ['drips a body', again('1\r\nx\r\n', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'), undefined],
    ['speaks no HTTP', once('hello\r\n\r\n'), 'not_connected'],
    ['never begins a TLS handshake', (socket) => socket.resume(), 'timeout', 'https'],
    ['drips a TLS handshake', again('\u0016\u0003\u0003\u0000\u007a'), 'not_connected', 'https'],
    ['ends its side of a TLS handshake', (socket) => socket.resume().end(), 'not_connected', 'https'],
  ])('that %s', async (_, does, outcome, scheme = 'http') => {
    const state = await hostileReceiver(does);
    const url = `${scheme}://${state.where}/`;
    const hosts = [readWebhookHost(scheme === 'http' ? `http://${state.where}` : state.where)];
    // Long enough for every outcome but `timeout` to come first.
    const timeoutMs = outcome === 'timeout' ? 100 : 60_000;
    expect(await send(message(url), { hosts, timeoutMs })).toBe(outcome);
    state.resume();
    await expect.poll(() => [state.opened, state.closed]).toEqual([1, 1]);
  });

  it('when the process stops, at once', async () => {
    const state = await hostileReceiver((socket) => void socket.pause());
    const stopped = new AbortController();
    const hosts = [readWebhookHost(`http://${state.where}`)];
    const sending = send(message(`http://${state.where}/`), { hosts, timeoutMs: 3_600_000, signal: stopped.signal });
    await expect.poll(() => state.opened).toBe(1);
    stopped.abort();
    expect(await sending).toBe('timeout');
    const late = send(message(`http://${state.where}/`), { hosts, timeoutMs: 3_600_000, signal: stopped.signal });
    expect(await late).toBe('timeout');
  });

  it('when a name server never answers', async () => {
    const hosts = [readWebhookHost('a.example.com')];
    const never = () => new Promise<readonly Address[]>(() => {});
    expect(await send(message('https://a.example.com/'), { hosts, timeoutMs: 50, lookup: never })).toBe('timeout');
  });
});

describe('nothing is sent', () => {
  const address = (text: string): Address => ({ address: text, family: text.includes(':') ? 6 : 4 });

  it('to a name under a pattern that leads to the server itself, and not when only one of its addresses does', async () => {
    let requests = 0;
    await receiver(() => (requests += 1));
    for (const found of [['127.0.0.1'], ['1.1.1.1', '10.0.0.1'], ['::1'], ['::ffff:127.0.0.1'], ['169.254.169.254']]) {
      const lookup = () => Promise.resolve(found.map(address));
      expect(await attempt('https://a.example.com/', ['*.example.com', '*'], lookup)).toBe('address_not_allowed');
    }
    expect(requests).toBe(0);
  });

  it('to a second answer of the name server: the address that was judged is the one that is connected to', async () => {
    let lookups = 0;
    let requests = 0;
    const where = await receiver((_, response) => {
      requests += 1;
      response.writeHead(200).end();
    });
    const port = where.split(':')[1] ?? '';
    const lookup = () => {
      lookups += 1;
      return Promise.resolve([address(lookups === 1 ? '127.0.0.1' : '127.0.0.9')]);
    };
    expect(await attempt(`http://named.example:${port}/`, [`http://named.example:${port}`], lookup)).toBeUndefined();
    expect([lookups, requests]).toEqual([1, 1]);
  });

  it('to a host that is not allowed, or that nobody knows', async () => {
    const never = () => Promise.reject(new Error('asked'));
    expect(await attempt('https://a.example.com/', ['b.example.com'], never)).toBe('host_not_allowed');
    expect(await attempt('no url', ['*'])).toBe('host_not_allowed');
    expect(await attempt('https://a.example.com/', ['a.example.com'], never)).toBe('host_unknown');
    expect(await attempt('https://a.example.com/', ['a.example.com'], () => Promise.resolve([]))).toBe('host_unknown');
  });
});
