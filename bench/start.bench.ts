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
    await rm(dir, { recursive: true, force: true });
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
    await rm(dir, { recursive: true, force: true });
    times['initdb']?.push(await timed(initdb));
    times['node']?.push(await timed(() => run(process.execPath, ['-e', '0'])));
  }
} finally {
  await program.close();
}

const row = (what: string, name: string, goal: string): string[] => {
  const sorted = (times[name] ?? []).toSorted((a, b) => a - b);
  return [what, goal, figure(sorted[Math.floor(sorted.length / 2)] ?? Number.NaN), figure(sorted.at(-1) ?? Number.NaN)];
};
console.log(`\nFrom start to ready, ${rounds} rounds\n`);
console.log(
  table(
    ['what', 'goal ms', 'median ms', 'worst ms'],
    [
      row('fresh data directory', 'fresh', '3,000'),
      row('existing data directory', 'existing', '1,000'),
      row('of the former: making the cluster', 'initdb', '-'),
      row('node -e 0', 'node', '-'),
    ],
  ),
);
