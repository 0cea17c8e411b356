/** Owns the PostgreSQL that tests run on: one per test file, in a temporary directory, with a fresh database for whoever asks. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { openDatabase, type Database } from '../../src/server/database/supervise.ts';

export interface TestPostgres {
  readonly database: Database;
  /** The connection string of a new, empty database. */
  freshUrl(): Promise<string>;
  stop(): Promise<void>;
}

/** A directory that the unprivileged database account can reach. */
export const temporaryDirectory = (): Promise<string> => mkdtemp(join(tmpdir(), 'rf-test-'));

/**
 * Not durable unless asked to be: most tests do not pull the plug, and an fsync for each commit is what takes their time.
 */
export async function startPostgres(options: { readonly durable?: boolean } = {}): Promise<TestPostgres> {
  const dir = await temporaryDirectory();
  const settings = options.durable === true ? {} : { fsync: 'off', full_page_writes: 'off' };
  const database = await openDatabase({ dir, settings });
  let count = 0;
  return {
    database,
    async freshUrl() {
      count += 1;
      const name = `test_${count}`;
      const client = new Client({ connectionString: database.url });
      await client.connect();
      try {
        await client.query(`CREATE DATABASE ${name}`);
      } finally {
        await client.end();
      }
      return database.url.replace('/postgres?', `/${name}?`);
    },
    async stop() {
      await database.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
