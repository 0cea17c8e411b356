/** Proves that the server forgets idempotency keys: those older than a day, and all but the newest of an organization. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { idempotencyKeysKept } from '../contract/change/idempotency.ts';
import { makeWorld, query } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

test('keys older than a day are deleted, and of a full organization all but the newest', async () => {
  const { url, store, org } = await makeWorld(postgres);
  const add = (count: number, hoursAgo: number): Promise<unknown> =>
    query(
      url,
      `INSERT INTO idempotency_keys (org_id, caller, key, at, fingerprint, answer, is_final)
       SELECT '${org}', '${org}', uuid_send(gen_random_uuid()), now() - make_interval(hours => ${hoursAgo}, secs => n), '', '', true
       FROM generate_series(1, ${count}) n`,
    );
  const kept = async (): Promise<unknown> =>
    query(url, 'SELECT count(*)::int AS count, min(at) > now() - interval $$6 hours$$ AS young FROM idempotency_keys');
  await add(3, 25);
  await add(2, 5);
  await store.idempotencyKeys.forget();
  expect(await kept()).toEqual([{ count: 2, young: true }]);
  await add(idempotencyKeysKept, 1);
  await store.idempotencyKeys.forget();
  expect(await kept()).toEqual([{ count: idempotencyKeysKept, young: true }]);
});
