/** Owns the PostgreSQL that tests run on: one for a whole run, with fresh databases for whoever asks; or one of a test's own, to pull the plug on. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { openDatabase, type Database } from '../../src/server/database/supervise.ts';

export interface TestPostgres {
  /** The connection string of a new, empty database. */
  freshUrl(): Promise<string>;
  /** Takes the databases away that were made through this, and ends PostgreSQL if it is the test's own. */
  stop(): Promise<void>;
}

export interface OwnPostgres extends TestPostgres {
  readonly database: Database;
}

/** Where the run's PostgreSQL is reached; set before the test processes start, and inherited by them (`shared-postgres.ts`). */
export const sharedVariable = 'RINGFENCE_TEST_POSTGRES';

/** A directory that the unprivileged database account can reach. */
export const temporaryDirectory = (): Promise<string> => mkdtemp(join(tmpdir(), 'rf-test-'));

async function run(url: string, ...statements: string[]): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Fresh databases in the PostgreSQL at this URL; `drop` takes them away again, whoever is still connected. */
function databasesAt(url: string): {
  readonly freshUrl: () => Promise<string>;
  readonly drop: () => Promise<void>;
} {
  const made: string[] = [];
  return {
    freshUrl: async () => {
      const name = `test_${randomUUID().replaceAll('-', '')}`;
      await run(url, `CREATE DATABASE ${name}`);
      made.push(name);
      return url.replace('/postgres?', `/${name}?`);
    },
    drop: async () => {
      await run(url, ...made.map((name) => `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
    },
  };
}

/** Not durable unless asked to be: most tests do not pull the plug, and an fsync for each commit is what takes their time. */
export async function startOwnPostgres(
  options: { readonly durable?: boolean; readonly settings?: Readonly<Record<string, string>> } = {},
): Promise<OwnPostgres> {
  const dir = await temporaryDirectory();
  const quick = { fsync: 'off', full_page_writes: 'off' };
  const settings = { ...(options.durable === true ? {} : quick), ...options.settings };
  const database = await openDatabase({ dir, settings });
  return {
    database,
    freshUrl: databasesAt(database.url).freshUrl,
    async stop() {
      await database.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** The run's own, or one for this file where there is none. */
export async function startPostgres(): Promise<TestPostgres> {
  const url = process.env[sharedVariable];
  if (url === undefined) return startOwnPostgres();
  const { freshUrl, drop } = databasesAt(url);
  return { freshUrl, stop: drop };
}
