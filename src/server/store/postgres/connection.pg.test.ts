/** Proves that connections which are closed on purpose are not told of as lost. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startOwnPostgres, type OwnPostgres } from '../../../../test/lib/postgres.ts';
import { Transactions } from './connection.ts';
import { statement } from './sql.ts';

let postgres: OwnPostgres;
beforeAll(async () => {
  postgres = await startOwnPostgres();
});
afterAll(() => postgres.stop());

test('a database that shuts down right behind its last client says nothing that would be a warning', async () => {
  const warnings: string[] = [];
  const transactions = new Transactions(1, {
    url: await postgres.freshUrl(),
    onWarning: (message) => warnings.push(message),
  });
  const ownPid = statement<{ pid: number }>('own_pid', 'SELECT pg_backend_pid() AS pid');
  const [backend] = await transactions.run((tx) => tx.run(ownPid, []));
  if (backend === undefined) throw new Error('no backend');
  // It hears of the shutdown before it has read the farewell.
  process.kill(backend.pid, 'SIGSTOP');
  try {
    await transactions.close();
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
