/**
 * Measures the store without HTTP, on one organization: a single writer beside the bare statements, and 64 writers grouped beside 64 that are
 * not. Every side runs the same statements, with their audit entry, on the same durable PostgreSQL in the same run.
 * Floor: those statements in one call, by pgbench and by the bare driver. Not measured: HTTP, rights, several servers.
 */
import { rm } from 'node:fs/promises';
import { Client } from 'pg';
import { openDatabase } from '../src/server/database/supervise.ts';
import { openStore } from '../src/server/store/open.ts';
import { asServer, type Actor } from '../src/server/store/data/actor.ts';
import { device } from '../src/server/store/store.fixture.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { median, showGoals } from './lib/goals.ts';
import { pgbench, updateCall, updateFunction, updateNote } from './lib/pgbench.ts';
import { figure, table } from './lib/table.ts';

const crowd = 64;
const seconds = Number(process.env['RINGFENCE_BENCH_SECONDS'] ?? 3);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 3);

interface Result {
  readonly perSecond: number;
  readonly p50: number;
  /** Processor time of this process for a write, in microseconds, where sides took turns. */
  readonly own?: number;
}

async function load(writers: number, write: (c: number, n: number) => Promise<void>): Promise<Result> {
  const times: number[] = [];
  const started = performance.now();
  const until = started + seconds * 1000;
  const writer = async (_: unknown, c: number): Promise<void> => {
    for (let n = 0; performance.now() < until; n += 1) {
      const from = performance.now();
      await write(c, n);
      times.push(performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: writers }, writer));
  const perSecond = (times.length / (performance.now() - started)) * 1000;
  times.sort((a, b) => a - b);
  return { perSecond, p50: times[Math.floor(times.length / 2)] ?? Number.NaN };
}

/** Sides turn by turn in short slices, so that a machine that slows down or speeds up does so for all of them. */
async function alternately<Name extends string>(
  sides: Readonly<Record<Name, (c: number, n: number) => Promise<void>>>,
): Promise<Record<Name, Result>> {
  const slices = 20;
  const names = Object.keys(sides) as Name[];
  const times = new Map(names.map((name) => [name, [] as number[]]));
  const used = new Map(names.map((name) => [name, 0]));
  for (let slice = 0; slice < slices; slice += 1) {
    for (const name of names) {
      const until = performance.now() + (seconds * 1000) / slices;
      const before = process.cpuUsage();
      for (let n = 0, from = performance.now(); from < until; n += 1) {
        await sides[name](0, n);
        const now = performance.now();
        times.get(name)?.push(now - from);
        from = now;
      }
      const { user, system } = process.cpuUsage(before);
      used.set(name, (used.get(name) ?? 0) + user + system);
    }
  }
  const result = (name: Name): Result => {
    const list = times.get(name) ?? [];
    return {
      perSecond: (list.length / list.reduce((sum, time) => sum + time, 0)) * 1000,
      p50: median(list),
      own: (used.get(name) ?? Number.NaN) / list.length,
    };
  };
  return Object.fromEntries(names.map((name) => [name, result(name)])) as Record<Name, Result>;
}

const dir = await temporaryDirectory();
const database = await openDatabase({ dir, settings: { max_connections: '300' } });
const store = await openStore({ url: database.url, phase: 3 });
const clients: Client[] = [];
try {
  const { id: user_id } = await store.users.create({ username: 'bench' }, asServer);
  const audit = updateNote(user_id);
  const by: Actor = { user_id, audit, ...asServer };
  const { id: org } = await store.organizations.create(user_id, { name: 'bench', description: '' }, asServer);
  const devices = await Promise.all(
    Array.from({ length: crowd }, () => store.devices.create(org, by, device(user_id))),
  );
  for (let n = 0; n < crowd; n += 1) {
    const client = new Client({ connectionString: database.url });
    await client.connect();
    clients.push(client);
  }
  const [setup] = clients;
  await setup?.query(updateFunction());
  await setup?.query('CREATE TABLE bench_targets (i integer PRIMARY KEY, org uuid, device uuid, me uuid)');
  for (const [i, { id }] of devices.entries())
    await setup?.query('INSERT INTO bench_targets VALUES ($1, $2, $3, $4)', [i, org, id, user_id]);
  const script = `SELECT org, device, me FROM bench_targets WHERE i = :client_id \\gset\n${updateCall}`;

  let serial = 0;
  const of = (c: number): Client => clients[c] as Client;
  /** What the store sends, in one call, by a client of its own: it waits for its turn. */
  const alone = async (c: number): Promise<void> => {
    const values = [org, devices[c]?.id, user_id, (serial += 1)];
    await of(c).query({ name: 'bench', text: 'SELECT bench_update($1, $2, $3, $4)', values });
  };
  const grouped = async (c: number, n: number): Promise<void> => {
    const id = devices[c]?.record.id;
    if (id !== undefined) await store.devices.update(org, by, id, { hostname: `host ${c} ${n} ${(serial += 1)}` });
  };

  const round = async (): Promise<Record<string, Result>> => ({
    'pgbench, 1 client': {
      perSecond: await pgbench({ database, dir, clients: 1, seconds }, script),
      p50: Number.NaN,
    },
    ...(await alternately({ 'statements, 1 writer': alone, 'store, 1 writer': grouped })),
    'ungrouped, 64 writers': await load(crowd, alone),
    'store, 64 writers': await load(crowd, grouped),
  });
  const results = new Map<string, Result[]>();
  await load(crowd, grouped);
  for (let done = 0; done < rounds; done += 1) {
    for (const [name, result] of Object.entries(await round()))
      results.set(name, [...(results.get(name) ?? []), result]);
  }
  const rate = (name: string): number => median((results.get(name) ?? []).map(({ perSecond }) => perSecond));
  const ownOf = (name: string): number => median((results.get(name) ?? []).map(({ own = Number.NaN }) => own));
  const rows = [...results].map(([name, list]) => [
    name,
    rate(name),
    Math.min(...list.map(({ perSecond }) => perSecond)),
    name.startsWith('pgbench') ? '-' : median(list.map(({ p50 }) => p50)),
    list.some(({ own }) => own !== undefined) ? ownOf(name) : '-',
  ]);
  console.log(`\nOne organization, ${seconds} s each, ${rounds} rounds: median and worst\n`);
  console.log(table(['side', 'writes/s', 'worst/s', 'p50 ms', 'own µs a write'], rows));
  /** The median of what each round says: its sides were measured one right after the other. */
  const ratio = (name: string, ...others: readonly string[]): number => {
    const found = (which: string, index: number): number => results.get(which)?.[index]?.perSecond ?? Number.NaN;
    const each = (results.get(name) ?? []).map(
      ({ perSecond }, index) => perSecond / Math.max(...others.map((other) => found(other, index))),
    );
    return median(each);
  };
  showGoals([
    {
      what: '64 writers: grouped ÷ ungrouped',
      goal: 15,
      measured: ratio('store, 64 writers', 'ungrouped, 64 writers'),
      unit: '×',
      atLeast: true,
    },
    {
      what: '1 writer: store ÷ statements',
      goal: 1,
      measured: ratio('store, 1 writer', 'statements, 1 writer'),
      unit: '×',
      atLeast: true,
      beside: `pgbench ${figure(ratio('pgbench, 1 client', 'store, 1 writer'))} × store; our process ${figure(ownOf('store, 1 writer'))} µs a write, a bare client ${figure(ownOf('statements, 1 writer'))}`,
    },
  ]);
} finally {
  await Promise.all(clients.map((client) => client.end()));
  await store.close();
  await database.stop();
  await rm(dir, { recursive: true, force: true, maxRetries: 20 });
}
