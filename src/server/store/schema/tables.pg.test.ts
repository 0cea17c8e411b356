/** Proves what tools for databases expect of the tables: each has a primary key or another index that tells its rows apart, without which logical replication refuses changes of it, and deleting a row looks nothing up without an index. */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';

let postgres: TestPostgres;
let client: Client;
beforeAll(async () => {
  postgres = await startPostgres();
  client = new Client({ connectionString: await postgres.freshUrl() });
  await client.connect();
});
afterAll(async () => {
  await client?.end();
  await postgres?.stop();
});

const names = async (text: string): Promise<readonly string[]> =>
  (await client.query<{ name: string }>(text)).rows.map(({ name }) => name);

test('every table has a primary key, or an index that identifies its rows for replication', async () => {
  expect(
    await names(`SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`),
  ).toContain('devices');
  expect(
    await names(
      `SELECT c.relname AS name FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
         AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)) ORDER BY 1`,
    ),
  ).toEqual([]);
});

test('every reference to another table is found by an index that begins with its columns', async () => {
  expect(
    await names(
      `SELECT k.conrelid::regclass || ' ' || k.conname AS name FROM pg_constraint k
       WHERE k.contype = 'f' AND k.connamespace = 'public'::regnamespace AND NOT EXISTS (
         SELECT FROM pg_index i WHERE i.indrelid = k.conrelid AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) ~ '^[(][a-z_]+ IS NOT NULL[)]$')
           AND (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey) ORDER BY 1`,
    ),
  ).toEqual([]);
});

test('no index is the beginning of another one', async () => {
  expect(
    await names(
      `SELECT i.indexrelid::regclass || ' of ' || j.indexrelid::regclass AS name FROM pg_index i JOIN pg_index j ON j.indrelid = i.indrelid AND j.indexrelid <> i.indexrelid
       JOIN pg_class a ON a.oid = i.indexrelid JOIN pg_class b ON b.oid = j.indexrelid
       WHERE i.indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace) AND NOT i.indisunique AND a.relam = b.relam
         AND i.indpred IS NULL AND j.indpred IS NULL AND i.indexprs IS NULL AND j.indexprs IS NULL
         AND (j.indkey::int2[])[0:i.indnkeyatts - 1] = (i.indkey::int2[])[0:i.indnkeyatts - 1] AND i.indnatts <= j.indnatts
         AND (i.indnkeyatts < j.indnkeyatts OR i.indexrelid < j.indexrelid) ORDER BY 1`,
    ),
  ).toEqual([]);
});
