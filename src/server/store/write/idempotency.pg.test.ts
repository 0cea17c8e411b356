/** Proves that the server forgets idempotency keys: those older than a day, and all but the newest of an organization, so that no member's keys go because of another's. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { idempotencyKeysKept } from '../data/idempotency.ts';
import { forgetOld, makeWorld, query } from '../store.fixture.ts';

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
  await forgetOld(store);
  expect(await kept()).toEqual([{ count: 2, young: true }]);
  await add(idempotencyKeysKept, 1);
  await forgetOld(store);
  expect(await kept()).toEqual([{ count: idempotencyKeysKept, young: true }]);
});

test('the keys of a member stay however many another makes, also with enrollment keys', async () => {
  const { url, store, org, owner, member } = await makeWorld(postgres);
  const add = (caller: string, count: number, minutesAgo: number): Promise<unknown> =>
    query(
      url,
      `INSERT INTO idempotency_keys (org_id, caller, key, at, fingerprint, answer, is_final)
       SELECT '${org}', ${caller}, uuid_send(gen_random_uuid()), now() - make_interval(mins => ${minutesAgo}), '', '', true
       FROM generate_series(1, ${count}) n`,
    );
  await add(`'${owner.user_id}'`, 100, 600);
  await add(`'${member.user_id}'`, idempotencyKeysKept, 1);
  await query(
    url,
    `INSERT INTO enrollment_keys (id, digest, org_id, user_id, name, expires_at, uses_left, security_groups, created_at)
     SELECT gen_random_uuid(), uuid_send(gen_random_uuid()), '${org}', '${member.user_id}', '', now() + interval '1 day', 1, '{}', now() FROM generate_series(1, 200)`,
  );
  await query(
    url,
    `INSERT INTO idempotency_keys (org_id, caller, key, at, fingerprint, answer, is_final)
     SELECT '${org}', e.id, uuid_send(gen_random_uuid()), now(), '', '', true FROM enrollment_keys e, generate_series(1, 60)`,
  );
  // Of callers that are gone.
  await add('gen_random_uuid()', 500, 0);
  await forgetOld(store);
  expect(await query(url, `SELECT FROM idempotency_keys WHERE caller = '${owner.user_id}'`)).toHaveLength(100);
  expect(await query(url, 'SELECT count(*)::int AS count FROM idempotency_keys')).toEqual([
    { count: idempotencyKeysKept },
  ]);
  // Those of callers that are gone are the first to go.
  const gone = `SELECT FROM idempotency_keys k WHERE NOT EXISTS (SELECT FROM users u WHERE u.id = k.caller) AND NOT EXISTS (SELECT FROM enrollment_keys e WHERE e.id = k.caller)`;
  expect(await query(url, gone)).toEqual([]);
});
