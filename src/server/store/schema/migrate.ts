/** Owns the migration of a database to this program's schema: forward only, and once, for any number of servers that start together. */
import { StoreError } from '../../problems.ts';
import type { DatabaseConnection } from '../postgres/database-connection.ts';
import { toStoreError } from '../postgres/failure.ts';
import { noTimeouts, Primary } from '../postgres/primary.ts';
import type { Migration } from './first-migrations.ts';
import { migrations } from './migrations.ts';

/** Any constant; servers that find it taken wait for the one that migrates. Held for a transaction: a pooler keeps no session. */
const lock = 7264651000;

/** One transaction. Gives the version that it found; the step after that one is applied. */
async function step(connection: DatabaseConnection, steps: readonly Migration[]): Promise<number> {
  const { client } = connection;
  await connection.begin();
  try {
    await client.query(`SELECT pg_advisory_xact_lock(${lock})`);
    await client.query(
      'CREATE TABLE IF NOT EXISTS schema_versions (version integer PRIMARY KEY, title text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    const { rows } = await client.query<{ version: number | null }>(
      'SELECT max(version) AS version FROM schema_versions',
    );
    const found = rows[0]?.version ?? 0;
    const next = steps.find(({ version }) => version > found);
    if (next !== undefined) {
      await client.query(next.sql);
      await client.query('INSERT INTO schema_versions (version, title) VALUES ($1, $2)', [next.version, next.title]);
    }
    await connection.commit();
    return found;
  } catch (cause) {
    await connection.rollback().catch(() => {});
    throw cause;
  }
}

/** Gives the version that the database now has. Fails with `schema_too_new` when a later program has been here; nothing is touched then. */
export async function migrate(at: Primary | string, steps: readonly Migration[] = migrations): Promise<number> {
  const known = Math.max(0, ...steps.map(({ version }) => version));
  const primary = typeof at === 'string' ? new Primary(at) : at;
  let connection: DatabaseConnection | undefined;
  try {
    // A step may take long on much data, and waits for another server's steps: no timeouts here.
    connection = await primary.open({ timeouts: noTimeouts });
    let found = await step(connection, steps);
    while (found < known) found = await step(connection, steps);
    if (found > known) {
      throw new StoreError(
        { code: 'schema_too_new', found, known },
        {
          message: `the database has schema version ${found}, this program knows up to ${known}: run a newer ringfence`,
        },
      );
    }
    return known;
  } catch (cause) {
    throw toStoreError(cause);
  } finally {
    await connection?.end();
  }
}
