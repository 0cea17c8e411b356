/** Proves when a pipelined connection sends, that it reopens after a loss, and that an intended close causes no warning. */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startOwnPostgres, type OwnPostgres } from '../../../../test/lib/postgres.ts';
import { PipelinedConnection, PipelinedConnections, Transactions } from './connection.ts';
import { Primary } from './primary.ts';
import { statement } from './sql.ts';

let postgres: OwnPostgres;
beforeAll(async () => {
  postgres = await startOwnPostgres();
});
afterAll(() => postgres.stop());

const ownPid = statement<{ pid: number }>('own_pid', 'SELECT pg_backend_pid() AS pid');

async function openConnection(): Promise<PipelinedConnection> {
  const connection = new PipelinedConnection({ primary: new Primary(await postgres.freshUrl()), onWarning: () => {} });
  onTestFinished(() => connection.close());
  return connection;
}

test('a pipelined connection that is open sends a statement before it gives back the promise of its rows', async () => {
  const connection = await openConnection();
  await connection.run(ownPid, []);
  const query = vi.spyOn(Client.prototype, 'query');
  onTestFinished(() => query.mockRestore());
  const answer = connection.run(ownPid, []);
  expect(query).toHaveBeenCalledTimes(1);
  expect(connection.inFlight).toBe(1);
  await answer;
  expect(connection.inFlight).toBe(0);
});

test('a text with a NUL is refused, and counts as nothing that is under way', async () => {
  const connection = await openConnection();
  const echo = statement<{ text: string }>('lane_echo', 'SELECT $1::text AS text');
  await connection.run(echo, ['a']);
  await expect(connection.run(echo, ['a\0'])).rejects.toMatchObject({ code: 'invalid_text' });
  expect(connection.inFlight).toBe(0);
  expect(await connection.run(echo, ['b'])).toEqual([{ text: 'b' }]);
});

test('a pipelined connection that was lost fails what was under way as of unknown outcome, and opens another', async () => {
  const connection = await openConnection();
  const [before] = await connection.run(ownPid, []);
  const end = statement<never>('end_own_backend', 'SELECT pg_terminate_backend(pg_backend_pid())');
  await expect(connection.run(end, [])).rejects.toMatchObject({ code: 'outcome_unknown' });
  expect(connection.inFlight).toBe(0);
  // The farewell comes before the end of the connection.
  const [after] = await vi.waitFor(() => connection.run(ownPid, []), { timeout: 60_000 });
  expect([before?.pid, after?.pid]).toEqual([expect.any(Number), expect.any(Number)]);
  expect(after?.pid).not.toBe(before?.pid);
});

test('what only reads is unavailable when its connection is lost, and a transaction that was not to be committed yet is, too', async () => {
  const primary = new Primary(await postgres.freshUrl());
  const end = statement<never>('end_own_backend_again', 'SELECT pg_terminate_backend(pg_backend_pid())');
  const reading = new PipelinedConnection({ primary, onWarning: () => {}, readsOnly: true });
  onTestFinished(() => reading.close());
  await expect(reading.run(end, [])).rejects.toMatchObject({ code: 'unavailable' });
  const transactions = new Transactions(1, { primary, onWarning: () => {} });
  onTestFinished(() => transactions.close());
  await expect(transactions.run((tx) => tx.run(end, []))).rejects.toMatchObject({ code: 'unavailable' });
  expect(await transactions.run((tx) => tx.run(ownPid, []))).toHaveLength(1);
});

test('a pipelined connection that was closed opens no other one, which would outlive its owner', async () => {
  const warnings: string[] = [];
  const primary = new Primary(await postgres.freshUrl());
  const open = vi.spyOn(primary, 'open');
  const connection = new PipelinedConnection({ primary, onWarning: (message) => warnings.push(message) });
  await connection.run(ownPid, []);
  await connection.close();
  await expect(connection.run(ownPid, [])).rejects.toMatchObject({ code: 'unavailable' });
  expect(open).toHaveBeenCalledTimes(1);
  expect(warnings).toEqual([]);
});

test('a database that shuts down right behind its last client says nothing that would be a warning', async () => {
  const warnings: string[] = [];
  const transactions = new Transactions(1, {
    primary: new Primary(await postgres.freshUrl()),
    onWarning: (message) => warnings.push(message),
  });
  const [backend] = await transactions.run((tx) => tx.run(ownPid, []));
  if (backend === undefined) throw new Error('no backend');
  // It hears of the shutdown before it has read the farewell.
  process.kill(backend.pid, 'SIGSTOP');
  try {
    transactions.close();
    process.kill(backend.pid, 'SIGTERM');
  } finally {
    process.kill(backend.pid, 'SIGCONT');
  }
  for (let i = 0; i < 6_000 && alive(backend.pid); i += 1) await new Promise((resolve) => setTimeout(resolve, 10));
  await new Promise((resolve) => setImmediate(resolve));
  expect(alive(backend.pid)).toBe(false);
  expect(warnings).toEqual([]);
});

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('statements of one organization are on half of the connections, and those of another wait for none of them', async () => {
  const url = await postgres.freshUrl();
  const connections = new PipelinedConnections(4, { primary: new Primary(url), onWarning: () => {}, readsOnly: true });
  onTestFinished(() => connections.close());
  const blocker = new Client({ connectionString: url });
  await blocker.connect();
  onTestFinished(() => blocker.end());
  await blocker.query('SELECT pg_advisory_lock(1)');
  const slow = statement<{ pid: number }>(
    'share_slow',
    'SELECT pg_backend_pid() AS pid, $1::text, pg_advisory_xact_lock_shared(1)::text',
  );
  const quick = statement<{ pid: number }>('share_quick', 'SELECT pg_backend_pid() AS pid, $1::text');
  const held = Promise.all(Array.from({ length: 20 }, () => connections.run(slow, ['rogue'])));
  // More at once than there are connections: whoever chose by the number of statements alone would soon meet one that is blocked.
  for (let round = 0; round < 10; round += 1)
    await Promise.all(Array.from({ length: 50 }, () => connections.run(quick, [`victim ${round}`])));
  await blocker.query('SELECT pg_advisory_unlock(1)');
  expect(new Set((await held).flat().map(({ pid }) => pid)).size).toBeLessThanOrEqual(2);
});
