/**
 * Owns the PostgreSQL that tests run on: one for a whole run, with fresh databases on request; or one of a test's own
 * that the test can kill.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { serverRole, superuser } from '../../src/server/database/cluster.ts';
import { openDatabase, type Database } from '../../src/server/database/supervise.ts';
import { migrate } from '../../src/server/store/schema/migrate.ts';

export interface TestPostgres {
  /**
   * The connection string of a new database without a row. Where many are made, it already has the tables that opening
   * it would create.
   */
  freshUrl(): Promise<string>;
  /** The connection string of a new database without a table. */
  emptyUrl(): Promise<string>;
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

/** The role that sets up. Databases belong to the one that the server has. */
export const asSuperuser = (url: string): string => url.replace(`//${serverRole}@`, `//${superuser}@`);

async function connected(url: string, work: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: asSuperuser(url) });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

const run = (url: string, ...statements: string[]): Promise<void> =>
  connected(url, async (client) => {
    for (const statement of statements) await client.query(statement);
  });

/** File by file, because page by page through the log takes four times the processor time; before version 15 there was no other way. */
const copy = (url: string, from: string, to: string): Promise<void> =>
  connected(url, async (client) => {
    const { rows } = await client.query(
      "SELECT FROM pg_settings WHERE name = 'server_version_num' AND setting >= '150000'",
    );
    await client.query(
      `CREATE DATABASE ${to} OWNER ${serverRole} TEMPLATE ${from} ${rows.length > 0 ? 'STRATEGY FILE_COPY' : ''}`,
    );
  });

const databaseAt = (url: string, name: string): string => url.replace('/postgres?', `/${name}?`);

/** Has this program's tables and no row: to copy it takes a tenth of what all the migrations take. */
const template = 'with_tables';

export async function makeTemplate(url: string): Promise<void> {
  await run(url, `CREATE DATABASE ${template} OWNER ${serverRole}`);
  await migrate(databaseAt(url, template));
  // Nothing may be connected to what is copied, not even a process that cleans up.
  await run(url, `ALTER DATABASE ${template} WITH ALLOW_CONNECTIONS false`);
}

/** Fresh databases in the PostgreSQL at this URL; `drop` removes them, even with open connections. */
function databasesAt(
  url: string,
  { fresh }: { readonly fresh: string },
): Pick<TestPostgres, 'freshUrl' | 'emptyUrl'> & { readonly drop: () => Promise<void> } {
  const made: string[] = [];
  const copyOf = async (source: string): Promise<string> => {
    const name = `test_${randomUUID().replaceAll('-', '')}`;
    await copy(url, source, name);
    made.push(name);
    return databaseAt(url, name);
  };
  return {
    freshUrl: () => copyOf(fresh),
    emptyUrl: () => copyOf('template1'),
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
  const { freshUrl, emptyUrl } = databasesAt(database.url, { fresh: 'template1' });
  return {
    database,
    freshUrl,
    emptyUrl,
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
  const { drop, ...urls } = databasesAt(url, { fresh: template });
  return { ...urls, stop: drop };
}
