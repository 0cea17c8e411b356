/** Proves that connections which say nothing cost others nothing: descriptors, handshakes, and a stop that always ends (reference 8 (13), 10 (24)). */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { request as plainRequest } from 'node:http';
import { request as secureRequest } from 'node:https';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeAll, afterAll, expect, onTestFinished, test } from 'vitest';
import { query } from '../../src/server/store/store.fixture.ts';
import { builtProgram } from '../lib/built.ts';
import { first } from '../lib/certificates.ts';
import { Api } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { isRunning, signalIfRunning } from '../lib/processes.ts';
import { startProcess, type ServerProcess } from '../lib/running.ts';
import { EventStream } from '../lib/stream.ts';

const token = 'operator-token-0123456789-0123456789';
let postgres: TestPostgres;
let sockets: Socket[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
});

interface Start {
  readonly args: readonly string[];
  readonly openFiles?: number;
  readonly databaseUrl?: string;
}

async function start({ args, openFiles, databaseUrl }: Start): Promise<ServerProcess> {
  const data = await temporaryDirectory();
  await writeFile(join(data, 'tls.crt'), first.cert);
  await writeFile(join(data, 'tls.key'), first.key);
  const server = await startProcess(join(await builtProgram(), 'ringfence.mjs'), data, {
    args: [
      '--database-url',
      databaseUrl ?? (await postgres.freshUrl()),
      ...args.map((one) => one.replace('DATA', data)),
    ],
    env: { RINGFENCE_ADMIN_TOKEN: token },
    ...(openFiles === undefined ? {} : { openFiles }),
  });
  onTestFinished(async () => {
    await server.end('SIGKILL');
    await rm(data, { recursive: true, force: true });
  });
  return server;
}

/** A raw connection from an address of this machine, that sends so much and then nothing, or ends its own side. */
function open(url: string, { bytes = '', half = false, from = '127.0.0.1' } = {}): Socket {
  const { port } = new URL(url);
  const socket = connect({ port: Number(port), host: '127.0.0.1', localAddress: from, allowHalfOpen: true });
  sockets.push(socket);
  socket.on('error', () => {});
  socket.resume();
  if (bytes !== '') socket.write(Buffer.from(bytes, 'latin1'));
  if (half) socket.end();
  return socket;
}

/** The status of an answer on a connection of its own, or why there is none. */
const ask = (url: string, path: string): Promise<number | string> =>
  new Promise((resolve) => {
    const get = url.startsWith('https:') ? secureRequest : plainRequest;
    const headers = { authorization: `Bearer ${token}` };
    const asked = get(`${url}${path}`, { agent: false, ca: first.cert, headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asked.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    asked.end();
  });

/** A stream of the administrator's organization. */
async function openStream(url: string): Promise<EventStream> {
  const api = new Api(url, token);
  const [organization] = await api.expect(200, 'GET', '/api/organizations');
  api.close();
  const stream = new EventStream(url, token, organization.id, [{ kind: 'device' }]);
  onTestFinished(() => stream.close());
  return stream.tail(1);
}

/** Sockets of the server's side, by the kernel's list. */
async function heldBy(url: string): Promise<number> {
  const port = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, '0');
  const lines = (await readFile('/proc/net/tcp', 'utf8')).split('\n');
  // Established and CLOSE-WAIT: what a process holds. The other states are the kernel's own.
  const states = new Set(['01', '08']);
  return lines.filter((line) => {
    const [, local, , state] = line.trim().split(/\s+/);
    return local?.endsWith(`:${port}`) === true && states.has(state ?? '');
  }).length;
}

test('700 silent connections to a process that may have 500 files open keep nobody from being answered, at their own address neither', async () => {
  const { url } = await start({ args: ['--first-byte-timeout', '3600'], openFiles: 500 });
  const stream = await openStream(url);
  for (let opened = 0; opened < 700; opened += 1) open(url, { bytes: opened % 2 === 0 ? '' : 'GET / HTTP/1.1\r\n' });
  const answers: (number | string)[] = [];
  for (let asked = 0; asked < 20; asked += 1) {
    answers.push(await ask(url, '/api/users/me'), await ask(url, '/readyz'));
    for (let opened = 0; opened < 10; opened += 1) open(url, { from: `127.0.1.${asked + 1}` });
  }
  expect(new Set(answers)).toEqual(new Set([200]));
  expect([stream.closed, stream.body.ended]).toEqual([false, false]);
  const held = await heldBy(url);
  expect(held).toBeGreaterThan(200);
  expect(held).toBeLessThan(450);
});

/** The first bytes of a TLS handshake, which promise more. */
const hello = '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003';
function openHandshakes(url: string): void {
  for (let opened = 0; opened < 100; opened += 1) {
    open(url);
    open(url, { bytes: hello });
    open(url, { bytes: hello, half: true });
  }
}
const withTls = ['--tls-cert', 'DATA/tls.crt', '--tls-key', 'DATA/tls.key'];

test('of 300 TLS handshakes that are silent, half open or half closed none is left, and others are answered meanwhile', async () => {
  const { url } = await start({ args: [...withTls, '--first-byte-timeout', '1', '--handshake-timeout', '1'] });
  openHandshakes(url);
  await expect.poll(() => heldBy(url)).toBeGreaterThan(0);
  expect(await ask(url, '/api/users/me')).toBe(200);
  await expect.poll(() => heldBy(url)).toBe(0);
});

test('a server stops although handshakes never end, a request waits and the database says nothing', async () => {
  const databaseUrl = await postgres.freshUrl();
  const server = await start({ args: [...withTls, '--shutdown-timeout', '2'], databaseUrl });
  expect(await ask(server.url, '/api/users/me')).toBe(200);
  openHandshakes(server.url);
  await expect.poll(() => heldBy(server.url)).toBeGreaterThan(190);
  const backends = await query<{ pid: number }>(
    databaseUrl,
    'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
  );
  expect(backends.length).toBeGreaterThan(0);
  onTestFinished(() => backends.forEach(({ pid }) => signalIfRunning(pid, 'SIGCONT')));
  for (const { pid } of backends) process.kill(pid, 'SIGSTOP');
  const unanswered = ask(server.url, '/api/organizations');
  await server.end('SIGTERM');
  expect(isRunning(server.pid)).toBe(false);
  expect(await unanswered).not.toBe(200);
});
