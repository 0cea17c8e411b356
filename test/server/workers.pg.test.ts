/** Proves a server of several processes: one port, one truth, no loss when a process dies, one clean end. */
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { first as certificate } from '../lib/certificates.ts';
import { Api } from '../lib/http.ts';
import { temporaryDirectory } from '../lib/postgres.ts';
import { Program, type Run } from '../lib/run.ts';
import { postgresOf } from '../lib/running.ts';
import { EventStream } from '../lib/stream.ts';

let program: Program;
let data: string;
const streams: EventStream[] = [];
beforeAll(async () => {
  [program, data] = await Promise.all([Program.build(), temporaryDirectory()]);
});
afterAll(async () => {
  await program.close();
  await rm(data, { recursive: true, force: true });
});
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close();
});

const token = 'operator-token-0123456789-0123456789';
const start = (...args: string[]): Run =>
  program.run(['server', '--listen', '127.0.0.1:0', '--data', data, ...args], { RINGFENCE_ADMIN_TOKEN: token });

const text = (path: string): string => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
};
const alive = (pid: number): boolean => /^State:\s+[^ZX]/m.test(text(`/proc/${pid}/status`));

/** The processes of a server that serve. */
const workersOf = ({ child: { pid } }: Run): readonly number[] =>
  text(`/proc/${pid}/task/${pid}/children`)
    .split(' ')
    .filter((one) => text(`/proc/${one}/cmdline`).includes('ringfence.mjs'))
    .map(Number);

const linkOf = (path: string): string => {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // Closed meanwhile.
  }
};

/** How many connections to a port of this machine a process has taken. */
function connectionsOf(pid: number, port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((row) => row.trim().split(/\s+/));
  const established = rows.filter((row) => row[1]?.endsWith(local) === true && row[3] === '01');
  const inodes = new Set(established.map((row) => `socket:[${row[9]}]`));
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => inodes.has(linkOf(`${folder}/${fd}`))).length;
}

/** Looks seldom after a while: what all workers measure together costs each of them something, while others start. */
async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (let i = 0, pause = 10; i < 800; i += 1, pause = Math.min(pause * 1.5, 150), await sleep(pause)) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
  }
  throw new Error(`waited for ${what} in vain`);
}

const state = (pid: number): string => /^State:\s+(\w)/m.exec(text(`/proc/${pid}/status`))?.[1] ?? '';

async function freeze(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await until('a frozen worker', () => state(pid) === 'T' || undefined);
}

/** Does something that only one of the workers can have a part in. */
async function withOnly<T>(one: number, workers: readonly number[], act: () => Promise<T>): Promise<T> {
  const others = workers.filter((pid) => pid !== one);
  try {
    for (const pid of others) await freeze(pid);
    return await act();
  } finally {
    for (const pid of others) process.kill(pid, 'SIGCONT');
  }
}

/** Whether a process listens at a port. */
function listens(pid: number, port: string): boolean {
  const at = Number(port).toString(16).toUpperCase().padStart(4, '0');
  const inode = new RegExp(`^ *\\d+: 0100007F:${at} 00000000:0000 0A (?:\\S+ +){5}(\\d+)`, 'm').exec(
    text('/proc/net/tcp'),
  )?.[1];
  return readdirSync(`/proc/${pid}/fd`).some((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]`;
    } catch {
      return false;
    }
  });
}

/** Numbers that the server measures, whichever process is asked. */
async function measured(api: Api, name: string): Promise<number> {
  const answer = await api.ask('GET', '/metrics', { headers: { connection: 'close' } });
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(answer.text)?.[1]);
}

/** All of them serve once what they measure together is that many processes' worth. */
const serving = (api: Api, count: number): Promise<true> =>
  until(`${count} serving workers`, async () => (await measured(api, 'ringfence_workers')) === count || undefined);

test('what is written through one worker is told to the other without a read of the log, also while the first process is frozen; both end with the server', async () => {
  const run = start('--workers', '2');
  const url = await run.url();
  const admin = new Api(url, token);
  await serving(admin, 2);
  const { id: org } = await admin.expect(201, 'POST', '/api/organizations', { name: 'acme' });
  const workers = workersOf(run);
  const told = ['tail'];
  const make = async (name: string): Promise<void> => {
    const made = await admin.expect(201, 'POST', `/api/organizations/${org}/devices`, { public_key: name });
    told.push(`change ${made.revision}`);
  };
  const watching: EventStream[] = [];
  for (const worker of workers) {
    const stream = new EventStream(url, token, org, [{ kind: 'device' }]);
    streams.push(stream);
    watching.push(await withOnly(worker, workers, () => stream.tail()));
  }
  const arrived = async (): Promise<void> => {
    for (const stream of watching) expect((await stream.count(told.length)).told).toEqual(told);
  };
  const before = await measured(admin, 'ringfence_watch_log_reads_total');
  for (let i = 0; i < 60; i += 1) await make(`device ${i}`);
  await arrived();
  // One a write where it is read. A look at the heads that falls between a commit and the telling of it reads too.
  expect((await measured(admin, 'ringfence_watch_log_reads_total')) - before).toBeLessThan(30);

  const first = run.child.pid ?? 0;
  try {
    await freeze(first);
    for (let i = 0; i < 5; i += 1) await make(`while it is frozen ${i}`);
    await arrived();
  } finally {
    process.kill(first, 'SIGCONT');
  }
  await make('afterwards');
  await arrived();

  const postgres = await postgresOf(data);
  expect(alive(postgres)).toBe(true);
  const last = [first, ...workers, postgres];
  admin.close();
  expect(await run.stop()).toMatchObject({ code: 0 });
  expect(run.stdout).toMatch(/Stopped\.\n$/);
  for (const stream of watching) expect((await stream.end()).body.ended).toBe(true);
  expect(last.filter((pid) => alive(pid))).toEqual([]);
});

describe('one server of three workers', () => {
  let run: Run;
  let url: string;
  let admin: Api;
  let org: string;
  beforeAll(async () => {
    run = start('--workers', '3', '--stream-heartbeat', '1');
    url = await run.url();
    admin = new Api(url, token);
    await serving(admin, 3);
    org = (await admin.expect(201, 'POST', '/api/organizations', { name: 'acme' })).id;
  });
  afterAll(() => admin?.close());

  test('streams on different workers see what is written through any, and lose nothing when one is killed', async () => {
    const workers = workersOf(run);
    expect(workers).toHaveLength(3);
    const make = (name: string) =>
      admin.expect(201, 'POST', `/api/organizations/${org}/devices`, { public_key: name }) as Promise<{
        revision: number;
      }>;

    const open = (items: unknown): EventStream => {
      const stream = new EventStream(url, token, org, items);
      streams.push(stream);
      return stream;
    };
    const openAt = (worker: number): Promise<EventStream[]> =>
      withOnly(worker, workers, () => Promise.all([1, 2, 3].map(() => open([{ kind: 'device' }]).tail())));
    const watching: EventStream[] = [];
    for (const worker of workers) watching.push(...(await openAt(worker)));
    await until(
      'all streams counted',
      async () => (await measured(admin, 'ringfence_watch_streams')) === 9 || undefined,
    );

    const revisions: number[] = [];
    for (let i = 0; i < 12; i += 1) revisions.push((await make(`device ${i}`)).revision);
    const told = ['tail', ...revisions.map((revision) => `change ${revision}`)];
    for (const stream of watching) expect((await stream.count(13)).told).toEqual(told);

    process.kill(workers[0] ?? 0, 'SIGKILL');
    await run.shows(/worker \d exited unexpectedly \(SIGKILL\)/);
    // A connection that was kept open to that worker is dead, though this process may not have heard of it yet.
    admin.close();
    // With the process its connections were closed: whatever is answered now comes after that, and these hear of it in their turn.
    await measured(admin, 'ringfence_workers');
    await until('the streams of the killed worker to end', () => watching.slice(0, 3).every(({ closed }) => closed));
    const cut = watching.filter((stream) => stream.closed);
    expect(cut).toEqual(watching.slice(0, 3));
    // The others go on, and those that were cut off go on from where they were.
    const later = (await make('after the death')).revision;
    const resumed = cut.map(() => open([{ kind: 'device', gt_revision: revisions.at(-1), at_tail: true }]));
    for (const stream of resumed) expect((await stream.count(1)).told).toEqual([`change ${later}`]);
    const kept = watching.filter((stream) => !cut.includes(stream));
    for (const stream of kept) expect((await stream.count(14)).told).toEqual([...told, `change ${later}`]);
    await serving(admin, 3);
    expect(workersOf(run)).not.toContain(workers[0]);
  });

  test('a worker with more than its share of connections leaves new ones to the others until it has not', async () => {
    const { port } = new URL(url);
    const workers = workersOf(run);
    const [crowded = 0] = workers;
    expect(workers.map((pid) => listens(pid, port))).toEqual([true, true, true]);
    const many = await withOnly(crowded, workers, async () => {
      const opened = Array.from({ length: 150 }, () => new EventStream(url, token, org, [{ kind: 'device' }]));
      streams.push(...opened);
      for (const stream of opened) await stream.tail();
      return opened;
    });
    await until('the crowded worker to rest', () => !listens(crowded, port) || undefined);
    // It serves what it has, and the port is open.
    await admin.expect(201, 'POST', `/api/organizations/${org}/devices`, { public_key: 'k' });
    for (const stream of many) await stream.until('the change', ({ documents }) => documents.at(-1)?.type === 'change');
    for (const stream of many) stream.close();
    await until('all of them to listen again', () => workers.every((pid) => listens(pid, port)) || undefined);
  });

  test('whoever comes while a worker is frozen is answered, also when that worker is killed then', async () => {
    const [frozen = 0, ...others] = workersOf(run);
    // A connection that was kept open to that worker would wait for it.
    admin.close();
    await freeze(frozen);
    const waiting = Array.from({ length: 12 }, () => new EventStream(url, token, org, [{ kind: 'device' }]));
    streams.push(...waiting);
    // All but one are answered in any case; a server that hands connections out would have handed one to each worker.
    await until('answers', () => waiting.filter(({ status }) => status === 200).length >= 11 || undefined);
    process.kill(frozen, 'SIGKILL');
    // Another one was killed before.
    await run.shows(/(?:worker \d exited unexpectedly \(SIGKILL\)[^]*){2}/);
    await Promise.all(waiting.map((stream) => stream.tail()));
    expect(others.every((pid) => alive(pid))).toBe(true);
    await serving(admin, 3);
  });

  test('workers do not outlive a server that is killed, and the next one takes its place', async () => {
    admin.close();
    const workers = workersOf(run);
    expect(workers).toHaveLength(3);
    await run.stop('SIGKILL');
    await until('the end of the workers', () => !workers.some((pid) => alive(pid)) || undefined);
    const second = start('--workers', '2');
    expect((await fetch(`${await second.url()}/readyz`)).status).toBe(200);
    expect(await second.stop()).toMatchObject({ code: 0 });
  });
});

test('a TLS session of one worker is resumed at the other, and by the server that takes its place', async () => {
  const files = [join(data, 'tls.crt'), join(data, 'tls.key')] as const;
  await Promise.all([writeFile(files[0], certificate.cert), writeFile(files[1], certificate.key)]);
  const tls = ['--tls-cert', files[0], '--tls-key', files[1]];
  /** Whether the handshake resumed the session; without one, the session that it brings. */
  const shakeHands = (port: string, session?: Buffer): Promise<boolean | Buffer> =>
    new Promise((resolve, reject) => {
      const to = { host: '127.0.0.1', port: Number(port), ca: certificate.cert, ...(session && { session }) };
      const done = (found: boolean | Buffer): void => {
        resolve(found);
        socket.destroy();
      };
      const socket = connect(to, () => session && done(socket.isSessionReused()));
      socket.once('error', reject).once('session', done);
    });
  const run = start('--workers', '2', ...tls);
  const { port } = new URL(await run.url());
  const workers = await until('two workers that listen', () => {
    const pids = workersOf(run);
    return pids.length === 2 && pids.every((pid) => listens(pid, port)) ? pids : undefined;
  });
  const [one = 0, two = 0] = workers;
  const session = await withOnly(one, workers, () => shakeHands(port));
  if (!Buffer.isBuffer(session)) expect.fail('a full handshake brings a session');
  expect(await withOnly(two, workers, () => shakeHands(port, session))).toBe(true);
  expect(await run.stop()).toMatchObject({ code: 0 });
  // With another command line, from which Node would take what its sessions are for.
  const next = start('--workers', '1', '--log-level', 'error', ...tls);
  expect(await shakeHands(new URL(await next.url()).port, session)).toBe(true);
  expect(await next.stop()).toMatchObject({ code: 0 });
});

test('a port that is taken: the workers say so in one clear line, and nothing is left running', async () => {
  const first = createServer().listen(0, '127.0.0.1');
  await once(first, 'listening');
  const { port } = first.address() as AddressInfo;
  try {
    const second = program.run(['server', '--listen', `127.0.0.1:${port}`, '--data', data, '--workers', '2']);
    const ended = await second.ended;
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(
      /^ringfence: cannot listen on .*: another program already uses this address; try --listen 127\.0\.0\.1:\d+\n$/,
    );
  } finally {
    first.close();
  }
});

test('a bound on streams holds for all workers together, and what a killed one held is free again', async () => {
  const run = start('--workers', '2', '--max-streams', '20');
  const url = await run.url();
  const api = new Api(url, token);
  await serving(api, 2);
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'bounded' });
  const open = async (count: number): Promise<readonly number[]> => {
    const fresh = Array.from({ length: count }, () => new EventStream(url, token, org, [{ kind: 'device' }]));
    streams.push(...fresh);
    const answered = await Promise.all(fresh.map((stream) => stream.answered()));
    return answered.map(({ status }) => status).toSorted((a, b) => a - b);
  };
  const statuses = await open(50);
  expect(statuses.filter((status) => status === 200)).toHaveLength(20);
  expect(statuses.filter((status) => status === 429)).toHaveLength(30);
  // Connections of those that were refused may stay open. Without them there are the streams and that of `api`, so the worker with most has streams for certain.
  for (const stream of streams) if (stream.status === 429) stream.close();
  const port = Number(new URL(url).port);
  const connected = (): number[] => workersOf(run).map((pid) => connectionsOf(pid, port));
  await until('only streams are connected', () => connected().reduce((sum, count) => sum + count) <= 21);
  const [killed = 0] = workersOf(run).toSorted((a, b) => connectionsOf(b, port) - connectionsOf(a, port));
  process.kill(killed, 'SIGKILL');
  await run.shows(/worker \d exited unexpectedly \(SIGKILL\)/);
  await until('streams that are cut off', () => streams.some((stream) => stream.status === 200 && stream.closed));
  // A connection that was kept open to that worker is dead, though this process may not have heard of it yet.
  api.close();
  await serving(api, 2);
  // All its streams ended with it; by now the last of them has been heard of too.
  const cut = streams.filter((stream) => stream.status === 200 && stream.closed).length;
  await until('room for others', async () => {
    const now = await open(1);
    return now[0] === 200 || undefined;
  });
  const more = await open(40);
  const lost = streams.filter((stream) => stream.status === 200 && stream.closed).length;
  expect(lost).toBe(cut);
  expect(more.filter((status) => status === 200)).toHaveLength(cut - 1);
  api.close();
  expect(await run.stop()).toMatchObject({ code: 0 });
});

/** The status of a request on a connection of its own. */
const statusOf = (url: string, credential: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${credential}` };
    get(`${url}/api/users/me`, { agent: false, headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    }).on('error', reject);
  });

test('who guesses credentials on a new connection each has one burst, not one of each worker', async () => {
  const run = start('--workers', '2', '--failed-rate-limit', '1', '--failed-rate-burst', '60');
  const url = await run.url();
  const api = new Api(url, token);
  await serving(api, 2);
  let looked = 0;
  const begun = performance.now();
  for (let i = 0; i < 200; i += 1) if ((await statusOf(url, `rf_user_guess-${i}`)) === 401) looked += 1;
  // One more guess a second is allowed. The burst of each worker would be 120.
  const allowed = 60 + (performance.now() - begun) / 1000;
  expect(looked).toBeGreaterThanOrEqual(60);
  expect(looked).toBeLessThan(allowed + 30);
  api.close();
  expect(await run.stop()).toMatchObject({ code: 0 });
});
