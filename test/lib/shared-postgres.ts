/** Owns the one PostgreSQL that the test files of a run share: making a cluster for each of them took longer than many of the tests. */
import { makeTemplate, sharedVariable, startOwnPostgres } from './postgres.ts';

/** It visits every database once in that time to clean up, and there are dozens: none lives long enough to need it. */
const settings = { max_connections: '500', autovacuum_naptime: '60s' };

/** Called by vitest once before a project's tests; what it gives back is called after them. The first project makes it for all. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env[sharedVariable] !== undefined) return undefined;
  const postgres = await startOwnPostgres({ settings });
  await makeTemplate(postgres.database.url);
  process.env[sharedVariable] = postgres.database.url;
  return async () => {
    delete process.env[sharedVariable];
    await postgres.stop();
  };
}
