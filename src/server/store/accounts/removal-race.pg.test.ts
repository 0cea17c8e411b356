/** Proves that a removed user keeps nothing that was created at the same moment: no valid token, no organization, no membership. */
import { asServer } from '../data/actor.ts';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { makeWorld, problemOf, query, someDigest } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

test('a user who mints tokens in a loop while being removed keeps none that authenticates', async () => {
  const { store, url } = await makeWorld(postgres);
  for (let round = 0; round < 10; round += 1) {
    const { id } = await store.users.create({ username: `mallory ${round}` }, asServer);
    const digests: Buffer[] = [];
    const removal = new AbortController();
    const mint = async (): Promise<void> => {
      while (!removal.signal.aborted) {
        const digest = someDigest();
        digests.push(digest);
        await store.tokens.issue(id, { digest, name: '', scope: 'full' }, asServer).catch(() => undefined);
      }
    };
    const minting = [mint(), mint(), mint(), mint()];
    await store.users.remove(id, asServer);
    removal.abort();
    await Promise.all(minting);
    for (const digest of digests) expect(await store.tokens.authenticate(digest)).toBeUndefined();
    expect(await query(url, `SELECT id FROM tokens WHERE user_id = '${id}'`)).toEqual([]);
  }
});

/** The exact moment: the removal has looked and hidden the user, and has not committed. */
test('what is asked for between the look of a removal and its commit waits for it, and is refused', async () => {
  const { store, url, org, owner } = await makeWorld(postgres);
  const { id } = await store.users.create({ username: 'mallory' }, asServer);
  const removal = new Client({ connectionString: url });
  await removal.connect();
  try {
    await removal.query('BEGIN');
    await removal.query('SELECT id FROM users WHERE id = $1 FOR UPDATE', [id]);
    await removal.query('UPDATE users SET removed_at = now() WHERE id = $1', [id]);
    const noUser = { code: 'not_found', what: 'user' };
    const attempts = [
      problemOf(store.tokens.issue(id, { digest: someDigest(), name: '', scope: 'full' }, asServer)),
      problemOf(store.organizations.create(id, { name: 'late', description: '' }, asServer)),
      problemOf(store.members.add(org, owner, { user_id: id })),
    ];
    const waiting = `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    for (let count = 0; count < attempts.length;) {
      const [row] = await query<{ count: number }>(url, waiting);
      count = row?.count ?? 0;
    }
    await removal.query('COMMIT');
    expect(await Promise.all(attempts)).toEqual([noUser, noUser, noUser]);
  } finally {
    await removal.end();
  }
});
