/**
 * Measures the time from `ringfence server` to its word that it is ready, PostgreSQL included: on a fresh data directory and on an existing one.
 * Floors in the same run: Node starting for nothing, and initdb as the server calls it. Not measured: disks that are slower than this one.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chooseAccount, launcher } from '../src/server/database/account.ts';
import { makeCluster } from '../src/server/database/cluster.ts';
import { findPrograms } from '../src/server/database/programs.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { median, showGoals } from './lib/goals.ts';
import { figure, table } from './lib/table.ts';

const run = promisify(execFile);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 5);

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

async function initdb(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'rf-initdb-'));
  try {
    const account = await chooseAccount(dir);
    const launch = await launcher(dir, account);
    await makeCluster(dir, { programs: await findPrograms({}), account, launch });
  } finally {
    await rm(dir, { recursive: true, force: true, maxRetries: 20 });
  }
}

const program = await Program.build();
const times: Record<string, number[]> = { fresh: [], existing: [], initdb: [], node: [] };
try {
  for (let round = 0; round < rounds; round += 1) {
    const dir = await temporaryDirectory();
    for (const name of ['fresh', 'existing']) {
      const started = performance.now();
      const server = program.run(['server', '--listen', '127.0.0.1:0', '--data', dir, '--log-level', 'warn']);
      await server.url();
      times[name]?.push(performance.now() - started);
      await server.stop();
    }
    await rm(dir, { recursive: true, force: true, maxRetries: 20 });
    times['initdb']?.push(await timed(initdb));
    times['node']?.push(await timed(() => run(process.execPath, ['-e', '0'])));
  }
} finally {
  await program.close();
}

const middle = (name: string): number => median(times[name] ?? []);
const row = (what: string, name: string): string[] => [
  what,
  figure(middle(name)),
  figure(Math.max(...(times[name] ?? []))),
];
console.log(`\nFrom start to ready, ${rounds} rounds\n`);
console.log(
  table(
    ['what', 'median ms', 'worst ms'],
    [
      row('fresh data directory', 'fresh'),
      row('existing data directory', 'existing'),
      row('of the former: making the cluster', 'initdb'),
      row('node -e 0', 'node'),
    ],
  ),
);
showGoals([
  {
    what: 'server ready, fresh data directory, median',
    goal: 3_000,
    measured: middle('fresh'),
    unit: 'ms',
    beside: `making the cluster ${figure(middle('initdb'))} ms`,
  },
  {
    what: 'server ready, existing data directory, median',
    goal: 1_000,
    measured: middle('existing'),
    unit: 'ms',
    beside: `node -e 0: ${figure(middle('node'))} ms`,
  },
]);
