/** Proves what callers see while the database is away or full: 503 with Retry-After, and everything again without a restart. */
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openDatabase, type Database } from '../../src/server/database/supervise.ts';
import { readFile, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { newPlace, startTestServer, type TestServer } from '../lib/server.ts';

let dir: string;
let database: Database;
let server: TestServer;
beforeAll(async () => {
  dir = await temporaryDirectory();
  database = await openDatabase({ dir });
  const postgres = { freshUrl: () => Promise.resolve(database.url) } as unknown as TestPostgres;
  server = await startTestServer(postgres, { answerTimeout: 2 });
});
afterAll(async () => {
  await server.close();
  await database.stop();
  await rm(dir, { recursive: true, force: true });
});

/** Asks until it is answered with this status; the bound is generous, since machines are busy. */
async function until(status: number, ask: () => Promise<{ status: number }>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if ((await ask()).status === status) return;
    await sleep(50);
  }
  throw new Error(`never answered ${status}`);
}

/** PostgreSQL and its children, the parent first. */
async function postgresProcesses(pid: number): Promise<number[]> {
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ');
  return [pid, ...children.filter((text) => text !== '').map(Number)];
}

describe('a database that is gone', () => {
  test('answers are 503 with Retry-After and a request id, /readyz says so, /healthz lives; all comes back by itself', async () => {
    const { owner, base } = await newPlace(server);
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'before' });
    await database.stop();
    try {
      for (const answer of await Promise.all([
        owner.api.get(`${base}/devices`),
        owner.api.post(`${base}/devices`, { public_key: 'during' }),
        owner.api.patch(`${base}/devices/${device.id}`, { hostname: 'x' }),
        owner.api.post('/api/organizations', { name: 'x' }),
      ])) {
        expect(answer.status).toBe(503);
        expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
        expect(answer.json).toMatchObject({ code: 'unavailable', request_id: answer.headers['x-request-id'] });
        expect(answer.text).not.toMatch(/ECONN|ENOENT|sql|select|socket/i);
        expect(answer.text).not.toContain(tmpdir());
      }
      const ready = await server.nobody.get('/readyz');
      expect([ready.status, ready.json.detail]).toEqual([503, 'Not ready: cannot reach the database.']);
      expect((await server.nobody.get('/healthz')).status).toBe(200);
      // What is refused before the database is asked is refused as usual.
      expect((await server.nobody.get(base)).status).toBe(401);
      expect(server.logged()).toMatch(/"level":"warn".*"err"/);
    } finally {
      database = await openDatabase({ dir });
    }
    await until(200, () => server.nobody.get('/readyz'));
    await until(200, () => owner.api.get(`${base}/devices`));
    await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'after' });
    const names = (await owner.api.expect(200, 'GET', `${base}/devices`)).map(
      (d: { public_key: string }) => d.public_key,
    );
    expect(names).toContain('before');
    expect(names).toContain('after');
  });

  test('a database that hangs: 503 after --answer-timeout, and everything again when it goes on', async () => {
    const { owner, base } = await newPlace(server);
    const processes = (await postgresProcesses(database.pid ?? 0)).toReversed();
    for (const pid of processes) process.kill(pid, 'SIGSTOP');
    try {
      const answers = await Promise.all([
        owner.api.get(base),
        owner.api.post(`${base}/devices`, { public_key: 'hung' }),
      ]);
      for (const answer of answers) {
        expect([answer.status, answer.json.code, answer.headers['retry-after']]).toEqual([503, 'unavailable', '5']);
      }
      expect((await server.nobody.get('/readyz')).status).toBe(503);
    } finally {
      for (const pid of processes) process.kill(pid, 'SIGCONT');
    }
    await until(200, () => owner.api.get(base));
    await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'goes on' });
  });

  test('kill -9 of PostgreSQL: what was acknowledged is there, and requests succeed again', async () => {
    const { owner, base } = await newPlace(server);
    const acknowledged: string[] = [];
    const stop = new AbortController();
    const writer = async (name: string): Promise<void> => {
      for (let i = 0; !stop.signal.aborted; i += 1) {
        const key = `${name}-${i}`;
        const answer = await owner.api.post(`${base}/devices`, { public_key: key });
        expect([201, 503]).toContain(answer.status);
        if (answer.status === 201) acknowledged.push(key);
        else await sleep(20);
      }
    };
    const writers = Promise.all(['a', 'b', 'c', 'd'].map(writer));
    for (let round = 0; round < 3; round += 1) {
      const before = acknowledged.length;
      while (acknowledged.length < before + 20) await sleep(10);
      if (database.pid !== undefined) process.kill(database.pid, 'SIGKILL');
    }
    const before = acknowledged.length;
    while (acknowledged.length < before + 20) await sleep(10);
    stop.abort();
    await writers;
    const stored = (await owner.api.expect(200, 'GET', `${base}/devices`)) as {
      public_key: string;
      revision: number;
    }[];
    const keys = new Set(stored.map((d) => d.public_key));
    expect(acknowledged.filter((key) => !keys.has(key))).toEqual([]);
    expect(new Set(stored.map((d) => d.revision)).size).toBe(stored.length);
  });
});
