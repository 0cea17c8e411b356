/** Proves that prepared statements are described once for each connection, and that rows are read right all the same. */
import type { EventEmitter } from 'node:events';
import type { Writable } from 'node:stream';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { clientConfig } from './connection.ts';
import { runPrepared } from './prepared-query.ts';
import { statement } from './sql.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A connection, how often PostgreSQL has told it columns, and in how many pieces it was sent something. */
async function connected(pipeline: boolean) {
  const client = new Client({ ...clientConfig(await postgres.emptyUrl()), pipeline });
  await client.connect();
  onTestFinished(() => client.end());
  let told = 0;
  const { connection } = client as unknown as { readonly connection: EventEmitter & { readonly stream: Writable } };
  connection.on('rowDescription', () => (told += 1));
  const written = vi.spyOn(connection.stream, 'write');
  return { client, told: () => told, written: () => written.mock.calls.length };
}

const echo = statement<{ n: number; text: string | null; at: string; list: string[] }>(
  'test_echo',
  `SELECT $1::bigint AS n, $2::text AS text, '2026-11-16 07:09:35.1+00'::timestamptz AS at, ARRAY['a', $2]::text[] AS list FROM generate_series(1, $3::integer)`,
);
const divide = statement<{ share: number }>('test_divide', 'SELECT 12 / $1::integer AS share');
const all = statement<object>('test_all', 'SELECT * FROM test_table');

const row = (n: number, text: string | null) => ({ n, text, at: '2026-11-16T07:09:35.100Z', list: ['a', text] });

test.each([true, false])('columns are told once, whatever the rows are (pipeline: %s)', async (pipeline) => {
  const { client, told } = await connected(pipeline);
  expect(await runPrepared(client, echo, [7, 'x', 2])).toEqual([row(7, 'x'), row(7, 'x')]);
  expect(await runPrepared(client, echo, [8, null, 1])).toEqual([row(8, null)]);
  expect(await runPrepared(client, echo, [9, 'y', 0])).toEqual([]);
  expect(told()).toBe(1);
});

test('a statement that is known goes to PostgreSQL in one piece', async () => {
  const { client, written } = await connected(true);
  await runPrepared(client, echo, [7, 'x', 1]);
  const before = written();
  expect(await runPrepared(client, echo, [8, 'y', 1])).toEqual([row(8, 'y')]);
  expect(written() - before).toBe(1);
});

test('statements that are sent before the first is answered get their own rows', async () => {
  const { client, told } = await connected(true);
  const numbers = Array.from({ length: 20 }, (_, index) => index);
  const ask = () => Promise.all(numbers.map((n) => runPrepared(client, echo, [n, `${n}`, 1])));
  expect(await ask()).toEqual(numbers.map((n) => [row(n, `${n}`)]));
  const before = told();
  expect(await ask()).toEqual(numbers.map((n) => [row(n, `${n}`)]));
  expect(told()).toBe(before);
});

test('one that fails leaves those before and behind it as they are', async () => {
  const { client } = await connected(true);
  for (let round = 0; round < 2; round += 1) {
    const [first, second, third] = await Promise.allSettled([3, 0, 4].map((n) => runPrepared(client, divide, [n])));
    expect(first).toEqual({ status: 'fulfilled', value: [{ share: 4 }] });
    expect(second).toMatchObject({ status: 'rejected', reason: { code: '22012' } });
    expect(third).toEqual({ status: 'fulfilled', value: [{ share: 3 }] });
  }
});

test('a statement whose columns have changed is refused and never misread', async () => {
  const { client } = await connected(false);
  await client.query('CREATE TABLE test_table (a integer, b integer); INSERT INTO test_table VALUES (1, 2)');
  for (let round = 0; round < 2; round += 1) expect(await runPrepared(client, all, [])).toEqual([{ a: 1, b: 2 }]);
  await client.query('ALTER TABLE test_table DROP COLUMN a; ALTER TABLE test_table ADD COLUMN c integer DEFAULT 3');
  await expect(runPrepared(client, all, [])).rejects.toMatchObject({ code: '0A000' });
});
