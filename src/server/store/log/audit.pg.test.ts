/**
 * Proves that a write and its audit entry happen together or not at all: for single, batched and multi-step writes,
 * inside and outside organizations.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { type World, device, group, makeWorld, problemOf, query, someDigest } from '../store.fixture.ts';
import { asServer, type Actor } from '../data/actor.ts';
import type { AuditNote } from '../data/audit.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

const noteBy = ({ user_id }: Actor, operation: string): AuditNote => ({
  operation,
  user_id,
  fields: ['hostname', 'public_key'],
  credential: { kind: 'user_token', id: '00000000-0000-7000-8000-000000000001' },
  address: '192.0.2.1',
  request_id: 'r-1',
});
const told = (actor: Actor, operation: string): Actor => ({ ...actor, audit: noteBy(actor, operation) });

/** Everything in the database but the audit, by table. */
async function everything({ url }: World): Promise<unknown> {
  const tables = await query<{ name: string }>(
    url,
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'audit' ORDER BY 1`,
  );
  const contents: unknown[] = [];
  for (const { name } of tables) contents.push([name, await query(url, `SELECT * FROM ${name} t ORDER BY t::text`)]);
  return contents;
}

/** One write for each kind of write path, with an audit entry. */
async function writes({ store, org, owner, member }: World) {
  const groupOf = (name: string) => store.groups.create(org, owner, 'organization', group({ group_name: name }));
  const [kept, dropped] = [await groupOf('kept'), await groupOf('dropped')];
  const token = await store.tokens.issue(owner.user_id, { digest: someDigest(), name: '', scope: 'full' }, asServer);
  const { id: leaver } = await store.users.create({ username: 'leaver' }, asServer);
  const held = await store.devices.create(org, owner, device(owner.user_id));
  return {
    'single statement': () => store.devices.create(org, told(member, 'single statement'), device(member.user_id)),
    'several single statements': () =>
      Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          store.groups.update(org, told(owner, `single statement ${n}`), 'organization', kept.record.id, {
            group_name: `n${n}`,
          }),
        ),
      ),
    transaction: () => store.groups.delete(org, told(owner, 'transaction'), 'organization', dropped.record.id),
    'transaction and single statement together': () =>
      Promise.all([
        store.devices.create(org, told(owner, 'a'), device(owner.user_id)),
        store.devices.update(org, told(owner, 'b'), held.record.id, { security_groups: [kept.record.id] }),
        store.devices.create(org, told(owner, 'c'), device(owner.user_id)),
      ]),
    'an organization': () =>
      store.organizations.create(
        owner.user_id,
        { name: 'new', description: '' },
        { ...asServer, audit: noteBy(owner, 'org') },
      ),
    'a user': () => store.users.create({ username: 'new' }, { ...asServer, audit: noteBy(owner, 'user') }),
    'a token': () => store.tokens.revoke(token.id, { ...asServer, audit: noteBy(owner, 'token') }),
    'a user that goes': () => store.users.remove(leaver, { ...asServer, audit: noteBy(owner, 'remove') }),
  };
}

test('an entry that cannot be written takes its write back, whichever way that goes', async () => {
  const world = await makeWorld(postgres);
  const all = await writes(world);
  await query(world.url, `ALTER TABLE audit ADD CONSTRAINT no_more CHECK (operation = '') NOT VALID`);
  const before = await everything(world);
  for (const [name, write] of Object.entries(all)) {
    const outcome = await problemOf(write());
    expect(outcome, name).toMatchObject({ code: 'unexpected' });
    expect(await everything(world), name).toEqual(before);
  }
  await query(world.url, 'ALTER TABLE audit DROP CONSTRAINT no_more');
  for (const write of Object.values(all)) await write();
  expect(await query(world.url, 'SELECT FROM audit')).toHaveLength(1 + 20 + 1 + 3 + 1 + 1 + 1 + 1);
});

test('one bad entry among writes that share a transaction costs that one write only', async () => {
  const world = await makeWorld(postgres);
  const { store, org, owner } = world;
  await query(world.url, `ALTER TABLE audit ADD CONSTRAINT not_seven CHECK (operation <> 'w7')`);
  const outcomes = await Promise.allSettled(
    Array.from({ length: 12 }, (_, n) => store.devices.create(org, told(owner, `w${n}`), device(owner.user_id))),
  );
  expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map((_, n) => (n === 7 ? 'rejected' : 'fulfilled')));
  const devices = await store.devices.list(org);
  const entries = await store.audit.list(org);
  expect(new Set(entries.map(({ subject_id }) => subject_id))).toEqual(new Set(devices.map(({ id }) => id)));
  expect(entries).toHaveLength(11);
});

test('a refused write leaves no entry, alone or among others; one that changes nothing leaves one', async () => {
  const world = await makeWorld(postgres);
  const { store, org, owner } = world;
  const made = await store.devices.create(org, told(owner, 'made'), device(owner.user_id));
  const stale = () =>
    store.devices.update(org, told(owner, 'stale'), made.record.id, { hostname: 'x' }, { if_match: 99 });
  expect(await problemOf(stale())).toMatchObject({ code: 'precondition_failed' });
  const taken = { fields: { public_key: made.record.public_key } };
  const together = await Promise.allSettled([
    store.devices.create(org, told(owner, 'one'), device(owner.user_id)),
    store.devices.create(org, told(owner, 'taken'), device(owner.user_id, taken)),
    stale(),
    store.groups.delete(org, told(owner, 'gone'), 'organization', '00000000-0000-7000-8000-000000000009' as never),
    store.devices.create(org, told(owner, 'two'), device(owner.user_id)),
  ]);
  expect(together.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'rejected', 'fulfilled']);
  const same = await store.devices.update(org, told(owner, 'same'), made.record.id, { hostname: 'host' });
  expect(same.revision).toBe(made.revision);
  const entries = await store.audit.list(org);
  expect(entries.map(({ operation }) => operation).toSorted()).toEqual(['made', 'one', 'same', 'two']);
  expect(entries.find(({ operation }) => operation === 'same')).toMatchObject({ revision: made.revision });
});

test('grouped or alone, an entry says the same of its write', async () => {
  const world = await makeWorld(postgres);
  const { store, org, owner } = world;
  const alone = await store.devices.create(org, told(owner, 'alone'), device(owner.user_id));
  const together = await Promise.all(
    Array.from({ length: 10 }, (_, n) => store.devices.create(org, told(owner, `w${n}`), device(owner.user_id))),
  );
  const entries = new Map((await store.audit.list(org)).map((entry) => [entry.operation, entry]));
  for (const [operation, made] of [['alone', alone] as const, ...together.map((row, n) => [`w${n}`, row] as const)]) {
    expect(entries.get(operation)).toEqual({
      id: expect.any(String),
      at: made.record.created_at,
      operation,
      organization_id: org,
      subject_id: made.id,
      revision: made.revision,
      fields: ['hostname', 'public_key'],
      user_id: owner.user_id,
      username: 'olga',
      credential: { kind: 'user_token', id: '00000000-0000-7000-8000-000000000001' },
      address: '192.0.2.1',
      request_id: 'r-1',
    });
  }
});

test('retention of the audit and of the log deletes any number of entries, and only so many in one statement', async () => {
  const { url, store, org, owner } = await makeWorld(postgres, { auditRetentionMs: 0, logRetentionMs: 0 });
  const bounded = async (table: string, most: number): Promise<void> => {
    await query(
      url,
      `CREATE FUNCTION refuse_many_${table}() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
           IF (SELECT count(*) FROM gone) > ${most} THEN RAISE EXCEPTION 'too many at once'; END IF;
           RETURN NULL;
         END $$;
       CREATE TRIGGER refuse_many AFTER DELETE ON ${table} REFERENCING OLD TABLE AS gone
         FOR EACH STATEMENT EXECUTE FUNCTION refuse_many_${table}()`,
    );
  };
  await bounded('audit', 1_000);
  await bounded('changes', 20_000);
  await query(
    url,
    `INSERT INTO audit (id, at, org_id, operation, fields, user_id, credential, credential_id, address, request_id)
     SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, now(), '${org}', 'old', '{}', '${owner.user_id}', 'user_token', '${owner.user_id}', '', '' FROM generate_series(1, 2500) AS n`,
  );
  await query(
    url,
    `INSERT INTO changes (org_id, revision, kind, type, id, body, left_at, committed_at)
     SELECT '${org}', 1000 + n, 'device', 'change', gen_random_uuid(), '{}', 0, now() - interval '1 day' FROM generate_series(1, 45000) AS n`,
  );
  await store.audit.forget();
  await store.log.compact();
  expect(await query(url, `SELECT FROM audit WHERE operation = 'old'`)).toEqual([]);
  expect(await query(url, `SELECT FROM changes WHERE revision > 1000`)).toEqual([]);
});
