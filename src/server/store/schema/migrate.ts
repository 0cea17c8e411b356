/** Owns bringing a database to this program's schema: forward only, once, however many servers start together. */
import { Client } from 'pg';
import { clientConfig } from '../postgres/connection.ts';
import { StoreError } from '../contract/errors.ts';
import { toStoreError } from '../postgres/failure.ts';
import type { Migration } from './first-migrations.ts';
import { migrations } from './migrations.ts';

/** Any constant; servers that find it taken wait for the one that migrates. */
const lock = 7264651000;

async function apply(client: Client, { version, title, sql }: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query(sql);
    await client.query('INSERT INTO schema_versions (version, title) VALUES ($1, $2)', [version, title]);
    await client.query('COMMIT');
  } catch (cause) {
    await client.query('ROLLBACK').catch(() => {});
    throw cause;
  }
}

/** Gives the version that the database now has. Fails with `schema_too_new` when a later program has been here; nothing is touched then. */
export async function migrate(url: string, steps: readonly Migration[] = migrations): Promise<number> {
  // A step may take long on much data, and waits for another server's steps: no timeouts here.
  const client = new Client({
    ...clientConfig(url),
    statement_timeout: 0,
    lock_timeout: 0,
    idle_in_transaction_session_timeout: 0,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('SELECT pg_advisory_lock($1)', [lock]);
    await client.query(
      'CREATE TABLE IF NOT EXISTS schema_versions (version integer PRIMARY KEY, title text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    const { rows } = await client.query<{ version: number | null }>(
      'SELECT max(version) AS version FROM schema_versions',
    );
    const found = rows[0]?.version ?? 0;
    const known = Math.max(0, ...steps.map(({ version }) => version));
    if (found > known) {
      throw new StoreError(
        { code: 'schema_too_new', found, known },
        {
          message: `the database has schema version ${found}, this program knows up to ${known}: run a newer ringfence`,
        },
      );
    }
    for (const step of steps) if (step.version > found) await apply(client, step);
    return known;
  } catch (cause) {
    throw toStoreError(cause);
  } finally {
    await client.end().catch(() => {});
  }
}
