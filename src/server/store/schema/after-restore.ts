/** Owns what a database needs before and after a backup is put in its place. */
import { Client } from 'pg';
import { clientConfig } from '../postgres/connection.ts';
import { toStoreError } from '../postgres/failure.ts';

/** Far more than an organization changes between a backup and its restoration. */
const leap = 1_000_000;

async function ask<Row extends object>(url: string, text: string): Promise<readonly Row[]> {
  const client = new Client({ ...clientConfig(url), application_name: 'ringfence-restore' });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query<Row>(text)).rows;
  } catch (cause) {
    throw toStoreError(cause);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Whether anything of ours is in the database, and whether servers are using it right now. */
export async function inspect(url: string): Promise<{ readonly empty: boolean; readonly inUse: boolean }> {
  const [row] = await ask<{ empty: boolean; users: number }>(
    url,
    `SELECT to_regclass('schema_versions') IS NULL AS empty,
       (SELECT count(*)::integer FROM pg_stat_activity WHERE application_name = 'ringfence' AND datname = current_database()) AS users`,
  );
  return { empty: row?.empty ?? true, inUse: (row?.users ?? 0) > 0 };
}

/**
 * Readers may have seen revisions that the backup does not have and that will soon be given to other changes. So every organization
 * leaps ahead of all that was ever given, and forgets its deletions up to there: whoever resumes from before is told to
 * start afresh, and no revision ever means two things. What devices said about themselves is older than what they enforce by now, so
 * they are asked anew.
 */
export async function leapAhead(url: string): Promise<void> {
  await ask(
    url,
    `WITH forgotten AS (DELETE FROM device_status)
     UPDATE heads SET revision = revision + ${leap}, purged = revision + ${leap}, version = version + ${leap}`,
  );
}
