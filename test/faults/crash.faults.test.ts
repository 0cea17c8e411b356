/** Proves that nothing acknowledged is ever lost, and nothing is half done: the server and its PostgreSQL are killed at random while writers keep count. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { builtProgram } from '../lib/built.ts';
import { Api, type Answered } from '../lib/http.ts';
import { isRunning, signalIfRunning } from '../lib/processes.ts';
import { NotStarted, postgresOf, startProcess, type ServerProcess } from '../lib/running.ts';
import { Random } from '../lib/random.ts';
import { rounds } from '../lib/thorough.ts';

const kills = rounds(4, 20);
const writers = 12;
const adminToken = `rf_user_${'c'.repeat(43)}`;

let folder: string;
let program: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rf-crash-'));
  program = join(await builtProgram(), 'ringfence.mjs');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const start = (data: string): Promise<ServerProcess> =>
  startProcess(program, data, { args: ['--rate-limit', '0'], env: { RINGFENCE_ADMIN_TOKEN: adminToken } });

/** What a device may look like now: one state for sure, or several when an answer never came. `undefined` is absence. */
type States = readonly (string | undefined)[];

/** One writer's devices and what is known of them. It writes one after the other, so at most one answer is missing. */
class Writer {
  readonly #name: string;
  readonly known = new Map<string, States>();
  acknowledged = 0;
  unknown = 0;
  #next = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** Writes until it is stopped. A request without a successful response may or may not have taken effect. */
  async work(api: Api, base: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const certain = [...this.known].filter(([, states]) => states.length === 1 && states[0] !== undefined);
      const [id, states] = certain[this.#next % Math.max(1, certain.length)] ?? [];
      this.#next += 1;
      if (id === undefined || states === undefined || certain.length < 3) await this.#create(api, base);
      else if (this.#next % 7 === 0)
        await this.#attempt(id, states, undefined, () => api.delete(`${base}/devices/${id}`));
      else {
        const hostname = `${this.#name}-${this.#next}`;
        await this.#attempt(id, states, hostname, () => api.patch(`${base}/devices/${id}`, { hostname }));
      }
    }
  }

  async #create(api: Api, base: string): Promise<void> {
    const public_key = Buffer.from(`${this.#name} ${this.#next}`.padEnd(32)).toString('base64');
    const answer = await asked(() => api.post(`${base}/devices`, { public_key, hostname: public_key }));
    if (answer?.status === 201) {
      this.acknowledged += 1;
      this.known.set(answer.json.id, [answer.json.hostname]);
    } else this.unknown += 1;
  }

  async #attempt(id: string, before: States, after: string | undefined, ask: () => Promise<Answered>): Promise<void> {
    this.known.set(id, [...before, after]);
    const answer = await asked(ask);
    if (answer?.status === 200) {
      this.acknowledged += 1;
      this.known.set(id, [after]);
    } else this.unknown += 1;
  }
}

/** A response, or undefined for none. A request to retry later counts as none; any other failure is a fault. */
async function asked(ask: () => Promise<Answered>): Promise<Answered | undefined> {
  const answer = await ask().catch(() => undefined);
  if (answer === undefined) await sleep(20);
  else if (answer.status === 503) {
    expect(answer.headers['retry-after']).toMatch(/^\d+$/);
    await sleep(20);
  } else if (answer.status >= 300) throw new Error(`unexpected answer ${answer.status} ${answer.text}`);
  return answer;
}

async function ready(api: Api, server: ServerProcess): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    const answer = await api.get('/readyz').catch(() => undefined);
    if (answer?.status === 200) return;
    if (attempt > 600) throw new Error(`never ready again: ${answer?.text}\n${server.output().slice(-4000)}`);
    await sleep(50);
  }
}

/** Waits until so many more writes are acknowledged: a kill proves something when there is much to lose. */
async function busy(all: readonly Writer[], writes: number): Promise<void> {
  const count = (): number => all.reduce((sum, writer) => sum + writer.acknowledged, 0);
  const from = count();
  for (let waited = 0; count() < from + writes; waited += 20) {
    if (waited > 60_000) throw new Error(`only ${count() - from} writes in a minute`);
    await sleep(20);
  }
}

/** The processes of PostgreSQL that serve connections. */
function backendsOf(postmaster: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
        return parent === postmaster && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('ringfence');
      } catch {
        return false;
      }
    });
}

async function check(api: Api, base: string, all: readonly Writer[]): Promise<void> {
  // The processes that a killed PostgreSQL leaves behind answer for a moment longer: ready may be followed by not ready.
  let answer: Answered | undefined;
  for (let attempt = 0; answer?.status !== 200 && attempt < 600; attempt += 1)
    answer = await asked(() => api.get(`${base}/devices`));
  expect(answer?.status).toBe(200);
  const found: { id: string; hostname: string }[] = answer?.json;
  const byId = new Map(found.map(({ id, hostname }) => [id, hostname]));
  for (const writer of all) {
    for (const [id, states] of writer.known) {
      expect(states).toContain(byId.get(id));
      writer.known.set(id, [byId.get(id)]);
    }
  }
}

/** The revisions in the audit, ascending. */
async function auditedRevisions(api: Api, base: string): Promise<number[]> {
  const revisions: number[] = [];
  for (let path: string | undefined = `${base}/audit`; path !== undefined;) {
    const answer = await api.get(path);
    revisions.push(...(answer.json as { revision: number }[]).map(({ revision }) => revision));
    path = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link))?.[1];
  }
  return revisions.toSorted((a, b) => a - b);
}

test(`${kills} times the server, PostgreSQL, one of its processes or all of them are killed: every acknowledged write is there`, async () => {
  const data = join(folder, 'data');
  const random = new Random(20_260_201);
  const all = Array.from({ length: writers }, (_, index) => new Writer(`w${index}`));
  const killed: Record<string, number> = { server: 0, postgres: 0, backend: 0, both: 0 };
  let server = await start(data);
  try {
    let api = new Api(server.url, adminToken);
    const [organization] = await api.expect(200, 'GET', '/api/organizations');
    const base = `/api/organizations/${organization.id}`;
    for (let round = 0; round < kills; round += 1) {
      const stop = new AbortController();
      const working = all.map((writer) => writer.work(api, base, stop.signal));
      await busy(all, 60);
      await sleep(random.int(0, 400));
      const what = ['server', 'postgres', 'backend', 'both'][round % 4] ?? 'server';
      killed[what] = (killed[what] ?? 0) + 1;
      const postgres = await postgresOf(data);
      if (what === 'backend') for (const pid of backendsOf(postgres).slice(0, 1)) signalIfRunning(pid, 'SIGKILL');
      if (what === 'postgres' || what === 'both') signalIfRunning(postgres, 'SIGKILL');
      if (what === 'server' || what === 'both') {
        await server.end('SIGKILL');
        stop.abort();
        await Promise.all(working);
        api.close();
        server = await start(data);
        api = new Api(server.url, adminToken);
      }
      await ready(api, server);
      // Writers go on for a moment, so that recovery itself is part of what is checked.
      await sleep(100);
      stop.abort();
      await Promise.all(working);
      await check(api, base, all);
    }
    const acknowledged = all.reduce((sum, writer) => sum + writer.acknowledged, 0);
    const unknown = all.reduce((sum, writer) => sum + writer.unknown, 0);
    // A run that wrote too little, or never lost an answer, proves nothing.
    expect(acknowledged).toBeGreaterThanOrEqual(kills * 60);
    expect(unknown).toBeGreaterThan(kills);
    expect(Object.values(killed).every((times) => times === kills / 4)).toBe(true);
    // Each write took one revision after the organization's first, and has one entry: neither is there without the other.
    const { revision: head } = await api.expect(200, 'GET', base);
    expect(await auditedRevisions(api, base)).toEqual(Array.from({ length: head - 1 }, (_, n) => n + 2));
    api.close();
  } finally {
    await server.end('SIGTERM');
  }
}, 600_000);

describe('a server on its data directory', () => {
  // The one that all those servers left behind: making a database takes longer than what is proven here.
  const data = (): string => join(folder, 'data');
  let server: ServerProcess;
  beforeAll(async () => {
    server = await start(data());
  });
  afterAll(() => server?.end('SIGKILL'));

  test('is told of in one line to a second one, which ends', async () => {
    const error = await start(data()).then(
      async (second) => {
        await second.end('SIGKILL');
        return undefined;
      },
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(NotStarted);
    expect(error).toMatchObject({
      code: 1,
      output: `ringfence: another ringfence server (pid ${server.pid}) is using ${data()}\n`,
    });
    const api = new Api(server.url, adminToken);
    await api.expect(200, 'GET', '/api/users/me');
    api.close();
  });

  test('takes its PostgreSQL with it, also when it is killed', async () => {
    const postgres = await postgresOf(data());
    await server.end('SIGKILL');
    await expect.poll(() => isRunning(postgres), { timeout: 120_000 }).toBe(false);
  });
});
