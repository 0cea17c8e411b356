/** Owns the steps before and after a backup replaces a database. */
import type { Client } from 'pg';
import { StoreError } from '../../problems.ts';
import { toStoreError } from '../postgres/failure.ts';
import { Primary } from '../postgres/primary.ts';
import type { Runner } from '../postgres/connection.ts';
import { identityOf, replacedHistory, verifyHistory } from './eras.ts';
import type { Statement, Value } from '../postgres/sql.ts';
import { migrate } from './migrate.ts';

async function connected<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  try {
    const connection = await new Primary(url).open({ applicationName: 'ringfence-restore' });
    try {
      return await work(connection.client);
    } finally {
      await connection.end();
    }
  } catch (cause) {
    throw toStoreError(cause);
  }
}

/** The heads of a database that is about to be replaced, by organization. */
export type ReplacedHeads = ReadonlyMap<string, number>;

export interface Inspection {
  /** Whether nothing of ours is in the database. */
  readonly empty: boolean;
  /** Whether servers are using it right now. */
  readonly inUse: boolean;
  readonly heads: ReplacedHeads;
}

export const inspect = (url: string): Promise<Inspection> =>
  connected(url, async (client) => {
    const { rows } = await client.query<{ empty: boolean; headless: boolean; users: number }>(
      `SELECT to_regclass('schema_versions') IS NULL AS empty, to_regclass('heads') IS NULL AS headless,
         (SELECT count(*)::integer FROM pg_stat_activity WHERE application_name = 'ringfence' AND datname = current_database()) AS users`,
    );
    const { empty = true, headless = true, users = 0 } = rows[0] ?? {};
    const heads = headless
      ? []
      : (await client.query<{ org_id: string; revision: number }>('SELECT org_id, revision FROM heads')).rows;
    return { empty, inUse: users > 0, heads: new Map(heads.map(({ org_id, revision }) => [org_id, revision])) };
  });

/**
 * Readers may have seen revisions that the backup does not have. Every organization leaps ahead of all of them, so that none is given to
 * another change. What devices said about themselves is older than what they enforce by now, so it proves nothing.
 */
export async function leapAfterRestore(url: string, replaced: ReplacedHeads): Promise<void> {
  // A backup of an earlier version has no place for gaps yet. One of a later version has.
  await migrate(url).catch((error: unknown) => {
    if (!(error instanceof StoreError) || error.code !== 'schema_too_new') throw error;
  });
  await connected(url, async (client) => {
    const runner: Runner = {
      run: async <Row>({ text }: Statement<Row>, values: readonly Value[]) =>
        (await client.query({ text, values: [...values] })).rows as readonly Row[],
    };
    const identity = await identityOf(runner);
    await client.query('BEGIN');
    await verifyHistory(runner, identity, replacedHistory(replaced));
    await client.query('COMMIT');
  });
}
