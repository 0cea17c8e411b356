/** Proves that faults of one machine end in one clear line, and leave nothing behind. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { workerVariable } from '../../src/server/workers/messages.ts';
import { builtProgram } from '../lib/built.ts';
import { eventually } from '../lib/eventually.ts';
import { mortal } from '../lib/mortal.ts';
import { startPostgres, type TestPostgres } from '../lib/postgres.ts';

let postgres: TestPostgres;
let program: string;
let folder: string;
beforeAll(async () => {
  postgres = await startPostgres();
  program = join(await builtProgram(), 'ringfence.mjs');
  folder = await mkdtemp(join(tmpdir(), 'rf-faults-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  await postgres.stop();
});

function start(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}, ipc = false) {
  const child = spawn(...mortal(command, args), {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', ...(ipc ? ['ipc' as const] : [])],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, said }));
  return { child, ended };
}

test('a backup that is told to stop leaves no file, not even a part of one', async () => {
  const url = await postgres.freshUrl();
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  // The backup waits for this table, with its file begun.
  await client.query('BEGIN; LOCK TABLE organizations IN ACCESS EXCLUSIVE MODE');
  const { child, ended } = start(process.execPath, [program, 'backup', join(folder, 'backup')], {
    RINGFENCE_DATABASE_URL: url,
  });
  await eventually('the backup is begun', async () => (await readdir(folder)).length > 0);
  child.kill('SIGTERM');
  const { code, said } = await ended;
  expect([code, said]).toEqual([1, 'ringfence: stopped before the end\n']);
  expect(await readdir(folder)).toEqual([]);
});

test('a worker whose server was killed before it began ends without a word', async () => {
  const env = { NODE_UNIQUE_ID: '1', [workerVariable]: '1 1', RINGFENCE_DATA: join(folder, 'none') };
  const { ended } = start(process.execPath, [program, 'server', '--listen', '127.0.0.1:0'], env, true);
  expect(await ended).toEqual({ code: 1, said: '' });
});

test('an agent that may open too few files says so in one line', async () => {
  const args = ['agent', '--server', 'http://127.0.0.1:1', '--organization', '00000000-0000-4000-8000-000000000000'];
  const more = ['--interface', 'lo', '--enroll', 'rf_key_none', '--state', join(folder, 'state')];
  const limited = `ulimit -n 40; exec "${process.execPath}" "${program}" ${[...args, ...more].join(' ')}`;
  const { code, said } = await start('bash', ['-c', limited]).ended;
  expect([code, said]).toEqual([
    1,
    'ringfence: the limit of open files is 40: the agent needs 64 (ulimit -n, or LimitNOFILE= of its unit)\n',
  ]);
});
