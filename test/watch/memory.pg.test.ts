/** Proves that changes pass through a server without staying: whatever stuck readers leave unread costs it nothing (reference 4.3). */
import { asServer } from '../../src/server/store/data/actor.ts';
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseDeviceId, parseOrganizationId, parseUserId } from '../../src/policy/ids.ts';
import { openStore } from '../../src/server/store/open.ts';
import { defaultWatchSettings } from '../../src/server/watch/settings.ts';
import { Api } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { Program, type Run } from '../lib/run.ts';

let postgres: TestPostgres;
let program: Program;
let folder: string;
beforeAll(async () => {
  [postgres, program, folder] = await Promise.all([startPostgres(), Program.build(), temporaryDirectory()]);
});
afterAll(async () => {
  await program.close();
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
});

const token = 'operator-token-0123456789-0123456789';

/** Reads and throws away, but for the last bytes: they tell how far it is. */
class Reader {
  readonly socket: Socket;
  bytes = 0;
  #last = '';
  #awaited = '"tail"';
  #seen: () => void = () => {};

  constructor(url: string, org: string) {
    const { hostname, port } = new URL(url);
    const body = '[{"kind":"device"}]';
    this.socket = connect(Number(port), hostname).on('error', () => {});
    this.socket.write(
      `POST /api/organizations/${org}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    this.socket.on('data', (chunk: Buffer) => {
      this.bytes += chunk.length;
      const text = this.#last + chunk.toString('latin1');
      if (text.includes(this.#awaited)) this.#seen();
      this.#last = text.slice(-100);
    });
  }

  /** To be called before it can come. */
  sees(text: string): Promise<void> {
    this.#awaited = text;
    return new Promise((resolve) => (this.#seen = resolve));
  }
}

/** Collects garbage on request, and then writes into a file what is held: objects and buffers, in bytes. */
const collector = (file: string): string => `
  const { renameSync, writeFileSync } = require('node:fs');
  require('node:v8').setFlagsFromString('--expose-gc');
  const collect = require('node:vm').runInNewContext('gc');
  let times = 0;
  process.on('SIGUSR2', () => {
    collect();
    times += 1;
    const { heapUsed, external } = process.memoryUsage();
    writeFileSync(${JSON.stringify(`${file}.new`)}, JSON.stringify({ times, bytes: heapUsed + external }));
    renameSync(${JSON.stringify(`${file}.new`)}, ${JSON.stringify(file)});
  });`;

/** What a process with the collector holds after it has thrown away what it can. */
async function held(run: Run, file: string): Promise<number> {
  const read = async (): Promise<{ readonly times: number; readonly bytes: number }> =>
    existsSync(file)
      ? (JSON.parse(await readFile(file, 'utf8')) as { times: number; bytes: number })
      : { times: 0, bytes: 0 };
  // Buffers are given back a while after the objects that held them: what comes back at all is gone after a few.
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 4; i += 1) {
    const { times } = await read();
    run.child.kill('SIGUSR2');
    await expect.poll(async () => (await read()).times, { message: 'the collector ran' }).toBe(times + 1);
    least = Math.min(least, (await read()).bytes);
    await sleep(50);
  }
  return least;
}

test('thousands of changes through many streams, some of them stuck, leave nothing behind but the ring', async () => {
  // Large changes, so that few of them fill the ring: each round is more than it holds. Most readers are stuck: those cost nothing but memory.
  const [streams, stuck, changes, size] = [36, 30, 1_500, 12_000];
  const [gc, memory] = [join(folder, 'gc.cjs'), join(folder, 'memory.json')];
  await writeFile(gc, collector(memory));
  const url = await postgres.freshUrl();
  const args = ['--listen', '127.0.0.1:0', '--data', folder, '--workers', '1', '--stream-stuck', '3600'];
  const env = { RINGFENCE_DATABASE_URL: url, RINGFENCE_ADMIN_TOKEN: token, NODE_OPTIONS: `--require=${gc}` };
  const run = program.run(['server', ...args, '--log-level', 'error'], env);
  const address = await run.url();
  const api = new Api(address, token);
  const { id: user } = await api.expect(200, 'GET', '/api/users/me');
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'acme' });
  const { id: device } = await api.expect(201, 'POST', `/api/organizations/${org}/devices`, { public_key: 'one' });

  const store = await openStore({ url, phase: 3 });
  const readers: Reader[] = [];
  try {
    for (let i = 0; i < streams; i += 1) readers.push(new Reader(address, org));
    await Promise.all(readers.map((reader) => reader.sees('"tail"')));
    for (const reader of readers.slice(0, stuck)) reader.socket.pause();
    const live = readers.slice(stuck);

    let written = 0;
    /** Changes as fast as they go, and every live reader has the last one. */
    const round = async (name: string): Promise<void> => {
      const last = `last of ${name}`;
      const arrived = live.map((reader) => reader.sees(last));
      const until = written + changes;
      const update = (hostname: string) =>
        store.devices.update(
          parseOrganizationId(org),
          { user_id: parseUserId(user), ...asServer },
          parseDeviceId(device),
          {
            hostname,
          },
        );
      const work = async (): Promise<void> => {
        while (written < until) {
          written += 1;
          await update(`${String(written)} ${'x'.repeat(size)}`);
        }
      };
      await Promise.all(Array.from({ length: 64 }, work));
      await update(last);
      await Promise.all(arrived);
    };

    const { ringBytes } = defaultWatchSettings;
    expect(changes * size).toBeGreaterThan(ringBytes);
    // The first fills the ring, and what the stuck readers' connections take.
    await round('the first');
    const before = await held(run, memory);
    await round('the second');
    const after = await held(run, memory);
    // A queue of what stuck readers do not take would hold the whole round, even if all of them shared it.
    expect(after - before).toBeLessThan(ringBytes / 2);
    // … and in all: the ring, one turn's bytes for each stuck reader, and the program itself.
    expect(after).toBeLessThan(2 * ringBytes + stuck * 262_144 + 64 * 1_048_576);
    for (const reader of live) expect(reader.bytes).toBeGreaterThan(2 * changes * size);
  } finally {
    for (const reader of readers) reader.socket.destroy();
    api.close();
    await store.close();
    await run.stop('SIGKILL');
  }
});
