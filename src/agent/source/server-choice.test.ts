/** Proves which of several servers the agent asks, on real connections: it leaves one that cannot work, and finds the others before it waits. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { FetchInit } from '../../client/request.ts';
import { createNodeFetch } from '../../node/fetch.ts';
import { parseAddress, type Address } from '../../policy/address.ts';
import { AddressOrder } from './address-order.ts';
import { choosingFetch } from './server-choice.ts';
import { lookupThrough } from './server-lookup.ts';

type Reply = (path: string, answer: ServerResponse) => void;

const running: Server[] = [];
afterEach(() => {
  for (const server of running.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

interface FakeServer {
  readonly url: string;
  readonly asked: string[];
  reply: Reply;
  stop(): Promise<void>;
}

/** The first line of a stream, and nothing more. */
const streams: Reply = (_path, answer) => void answer.writeHead(200).write('{"type":"tail"}\n');
const unavailable: Reply = (_path, answer) => void answer.writeHead(503).end();

async function start(reply: Reply): Promise<FakeServer> {
  const server = createServer((request, answer) => {
    fake.asked.push(request.url ?? '');
    fake.reply(request.url ?? '', answer);
  });
  running.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = (): Promise<void> => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  };
  const fake: FakeServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    reply,
    stop,
  };
  return fake;
}

const asking = (signal = new AbortController().signal): FetchInit => ({
  method: 'POST',
  headers: {},
  cache: 'no-store',
  redirect: 'manual',
  signal,
});

const choose = (servers: readonly FakeServer[], random: () => number) =>
  choosingFetch(createNodeFetch(), { servers: servers.map(({ url }) => url), random });

/** In the order of the list, then. */
const ascending = (): (() => number) => {
  let next = 0;
  return () => (next += 0.001);
};

test('the first server is picked at random, so that a fleet spreads over all of them', async () => {
  const servers = [await start(streams), await start(streams)];
  for (const values of [
    [0.1, 0.9],
    [0.9, 0.1],
  ]) {
    const fetch = choose(servers, () => values.shift() ?? 0);
    await fetch(`${servers[0]?.url}/api/x`, asking());
  }
  expect(servers.map(({ asked }) => asked)).toEqual([['/api/x'], ['/api/x']]);
});

test('a stream goes to the next server at once when one is away or says 503, and stays there', async () => {
  const [away, broken, good] = [await start(streams), await start(unavailable), await start(streams)];
  await away.stop();
  const fetch = choose([away, broken, good], ascending());
  expect((await fetch(`${away.url}/api/events`, asking())).status).toBe(200);
  await fetch(`${away.url}/api/report`, asking());
  expect(broken.asked).toEqual(['/api/events']);
  expect(good.asked).toEqual(['/api/events', '/api/report']);
});

test('where no server can work, the last answer is given, and each was asked once', async () => {
  const servers = [await start(unavailable), await start(unavailable)];
  const fetch = choose(servers, ascending());
  expect((await fetch(`${servers[0]?.url}/api/events`, asking())).status).toBe(503);
  expect(servers.map(({ asked }) => asked.length)).toEqual([1, 1]);
});

test('a write is not sent twice: another server is asked the next time', async () => {
  const [broken, good] = [await start(unavailable), await start(streams)];
  const fetch = choose([broken, good], ascending());
  expect((await fetch(`${broken.url}/api/devices`, asking())).status).toBe(503);
  expect(good.asked).toEqual([]);
  expect((await fetch(`${broken.url}/api/devices`, asking())).status).toBe(200);
});

test('the stream from a server that can no longer reach its database is left as soon as a request says so', async () => {
  const [losing, good] = [await start(streams), await start(streams)];
  const fetch = choose([losing, good], ascending());
  const stream = (await fetch(`${losing.url}/api/events`, asking())).body?.getReader();
  await stream?.read();
  losing.reply = unavailable;
  await fetch(`${losing.url}/api/status`, asking());
  await expect(stream?.read()).rejects.toThrow(/leaving|aborted/);
  await fetch(`${losing.url}/api/events`, asking());
  expect(good.asked).toEqual(['/api/events']);
});

test('a server that ends the stream is left: it shuts down, or has lost its database, as the agent asks it to say', async () => {
  let prefer: string | undefined;
  const [ending, good] = [await start((_path, answer) => void answer.writeHead(200).end()), await start(streams)];
  running[0]?.on('request', ({ headers }) => (prefer = headers['prefer']?.toString()));
  const fetch = choose([ending, good], ascending());
  const init = { ...asking(), headers: { prefer: 'report-lines' } };
  const stream = (await fetch(`${ending.url}/api/events`, init)).body?.getReader();
  expect(await stream?.read()).toMatchObject({ done: true });
  await fetch(`${ending.url}/api/events`, init);
  expect([ending.asked, good.asked]).toEqual([['/api/events'], ['/api/events']]);
  expect(prefer).toBe('report-lines, end-when-not-ready');
});

test('a server that goes silent is left', async () => {
  const [silent, good] = [await start(streams), await start(streams)];
  const fetch = choose([silent, good], ascending());
  const end = new AbortController();
  await fetch(`${silent.url}/api/events`, asking(end.signal));
  end.abort(Object.assign(new Error('no data'), { code: 'silent' }));
  await fetch(`${silent.url}/api/events`, asking());
  expect(good.asked).toEqual(['/api/events']);
});

test('a caller that ends its stream leaves no server', async () => {
  const [first, second] = [await start(streams), await start(streams)];
  const fetch = choose([first, second], ascending());
  const end = new AbortController();
  await fetch(`${first.url}/api/events`, asking(end.signal));
  end.abort();
  await fetch(`${first.url}/api/events`, asking());
  expect(first.asked).toHaveLength(2);
  expect(second.asked).toEqual([]);
});

/** One name for several servers: each address of this device is one. */
async function behindOneName(...addresses: readonly string[]) {
  const asked: string[] = [];
  const replies = new Map<string, Reply>(addresses.map((address) => [address, streams]));
  const preferences: (string | undefined)[] = [];
  const server = createServer((request: IncomingMessage, answer) => {
    const own = request.socket.localAddress ?? '';
    asked.push(`${own} ${request.url ?? ''}`);
    preferences.push(request.headers['prefer']?.toString());
    (replies.get(own) ?? unavailable)(request.url ?? '', answer);
  });
  running.push(server);
  // Node's server ends an idle connection after 5 s, which is sooner than the next request of a busy machine.
  server.keepAliveTimeout = 600_000;
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  const url = `http://servers.example:${(server.address() as AddressInfo).port}`;
  const order = new AddressOrder({ random: ascending() });
  const found = addresses.map((text) => parseAddress(text) as Address);
  const choice = {
    count: () => found.length,
    leave: (_: string, remote: string | undefined) => order.leave('servers.example', remote),
  };
  const lookup = lookupThrough(async (host) => order.sort(host, found));
  const fetchWith = (keepAliveMs?: number) =>
    choosingFetch(createNodeFetch({ lookup, ...(keepAliveMs !== undefined && { keepAliveMs }) }), {
      servers: [url],
      random: Math.random,
      addresses: choice,
    });
  return { url, asked, replies, preferences, fetchWith };
}

test('of servers behind one name, a stream goes to the next address at once, stays there, and is asked to end when its server cannot work', async () => {
  const { url, asked, replies, preferences, fetchWith } = await behindOneName('127.0.0.1', '127.0.0.2', '127.0.0.3');
  replies.set('127.0.0.1', unavailable);
  // A stream has its connection for itself.
  replies.set('127.0.0.2', (_, answer) => void answer.writeHead(200, { connection: 'close' }).end());
  const fetch = fetchWith();
  const stream = (await fetch(`${url}/api/events`, asking())).body?.getReader();
  expect(await stream?.read()).toMatchObject({ done: true });
  await fetch(`${url}/api/events`, asking());
  await fetch(`${url}/api/report`, asking());
  expect(asked).toEqual([
    '127.0.0.1 /api/events',
    '127.0.0.2 /api/events',
    '127.0.0.3 /api/events',
    '127.0.0.3 /api/report',
  ]);
  expect(preferences).toEqual([...Array<string>(3).fill('end-when-not-ready'), undefined]);
});

test('a report to one address of the name leaves no stream from another, and the next report goes there', async () => {
  const { url, asked, replies, fetchWith } = await behindOneName('127.0.0.1', '127.0.0.2');
  const [streaming, reporting] = [fetchWith(), fetchWith(60_000)];
  const report: Reply = (_, answer) => void answer.writeHead(200).end('{}');
  replies.set('127.0.0.1', report);
  await (await reporting(`${url}/api/report`, asking())).json();
  replies.set('127.0.0.1', unavailable);
  const stream = (await streaming(`${url}/api/events`, asking())).body?.getReader();
  await stream?.read();
  expect(asked.at(-1)).toBe('127.0.0.2 /api/events');
  // The connection of the first report is still there.
  await (await reporting(`${url}/api/report`, asking())).body?.cancel();
  replies.set('127.0.0.2', report);
  await (await reporting(`${url}/api/report`, asking())).json();
  expect(asked.at(-1)).toBe('127.0.0.2 /api/report');
  const rest = stream?.read().then(
    () => 'more',
    () => 'left',
  );
  expect(await Promise.race([rest, new Promise((resolve) => setImmediate(() => resolve('open')))])).toBe('open');
});

test('a server that is alone is asked for nothing else, and its stream outlives a refused report', async () => {
  const { url, preferences, replies, fetchWith } = await behindOneName('127.0.0.1');
  const fetch = fetchWith();
  const stream = (await fetch(`${url}/api/events`, asking())).body?.getReader();
  await stream?.read();
  replies.set('127.0.0.1', unavailable);
  await fetch(`${url}/api/report`, asking());
  expect(preferences).toEqual([undefined, undefined]);
  const rest = stream?.read().then(
    () => 'more',
    () => 'left',
  );
  expect(await Promise.race([rest, new Promise((resolve) => setImmediate(() => resolve('open')))])).toBe('open');
});
