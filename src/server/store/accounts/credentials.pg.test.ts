/** Proves the store's promises for users, tokens and enrollment keys. */
import { asServer } from '../data/actor.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseEnrollmentKeyId, parseGroupId, parseTokenId, parseUserId } from '../../../policy/ids.ts';
import { device, group, makeWorld, openTestStore, problemOf, query, someDigest } from '../store.fixture.ts';
import type { Hint } from '../data/change-log.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const nowhere = '00000000-0000-4000-8000-000000000000';

test('users are made, found by id and name, listed in order, and names are unique', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const made = await store.users.create({ username: 'ada', is_admin: true }, asServer);
  expect(made).toEqual({ id: made.id, username: 'ada', is_admin: true, created_at: expect.stringMatching(/Z$/) });
  expect(await store.users.get(made.id)).toEqual(made);
  expect(await store.users.byName('ada')).toEqual(made);
  expect(await store.users.byName('Ada')).toBeUndefined();
  expect(await problemOf(store.users.create({ username: 'ada' }, asServer))).toEqual({ code: 'username_taken' });
  expect(await problemOf(store.users.get(parseUserId(nowhere)))).toEqual({ code: 'not_found', what: 'user' });
  expect((await store.users.list()).map(({ username }) => username)).toEqual(['olga', 'mark', 'ada']);
  expect((await store.users.list({ limit: 1, after: member.user_id })).map(({ username }) => username)).toEqual([
    'ada',
  ]);
  const own = await store.groups.create(org, member, member.user_id, group());
  expect((await store.users.get(member.user_id)).security_groups).toEqual([own.id]);
});

test('a user whom a provider vouches for is made at first sight and found ever after', async () => {
  const { store } = await makeWorld(postgres);
  const identity = { issuer: 'https://id.example', subject: '42', username: 'olga' };
  const both = await Promise.all([store.users.forIdentity(identity), store.users.forIdentity(identity)]);
  expect(both[0].id).toBe(both[1].id);
  expect(both[0].username).toMatch(/^olga-[0-9a-f]{4}$/);
  expect((await store.users.forIdentity({ ...identity, username: 'renamed' })).username).toBe(both[0].username);
  expect((await store.users.forIdentity({ ...identity, subject: '43', username: 'free' })).username).toBe('free');
});

test('the first administrator is made once, however many servers start together', async () => {
  const url = await postgres.freshUrl();
  const stores = await Promise.all([1, 2, 3].map(() => openTestStore(url)));
  const made = await Promise.all(
    stores.map(async (store) => {
      const token = someDigest();
      return { token, result: await store.users.bootstrap({ username: 'admin', organization: 'admin', token }) };
    }),
  );
  const winners = made.filter(({ result }) => result !== undefined);
  expect(winners).toHaveLength(1);
  const [store] = stores;
  expect(await store?.users.list()).toHaveLength(1);
  expect(await store?.tokens.authenticate(winners[0]?.token ?? Buffer.alloc(0))).toMatchObject({
    kind: 'user',
    username: 'admin',
    is_admin: true,
  });
  expect(await store?.organizations.list({ member: winners[0]?.result?.user.id ?? parseUserId(nowhere) })).toHaveLength(
    1,
  );
});

test('a token is issued, used, listed, rotated and revoked; expiry ends it', async () => {
  let time = Date.parse('2026-01-01T00:00:00Z');
  const { store, member } = await makeWorld(postgres, { clock: () => time });
  const digest = someDigest();
  const expires_at = new Date(time + 60_000);
  const issued = await store.tokens.issue(
    member.user_id,
    { digest, name: 'laptop', scope: 'read-only', expires_at },
    asServer,
  );
  expect(issued).toEqual({
    id: issued.id,
    kind: 'user',
    user_id: member.user_id,
    name: 'laptop',
    scope: 'read-only',
    expires_at: expires_at.toISOString(),
    created_at: '2026-01-01T00:00:00.000Z',
  });
  expect(await store.tokens.authenticate(digest)).toEqual({
    kind: 'user',
    digest: digest.toString('hex'),
    token_id: issued.id,
    user_id: member.user_id,
    username: 'mark',
    is_admin: false,
    scope: 'read-only',
    expires_at: expires_at.toISOString(),
  });
  expect(await store.tokens.authenticate(someDigest())).toBeUndefined();
  const hints: Hint[] = [];
  store.log.onHint((hint) => hints.push(hint));
  const next = someDigest();
  await store.tokens.rotate(issued.id, next, asServer);
  expect(await store.tokens.authenticate(digest)).toBeUndefined();
  expect(await store.tokens.authenticate(next)).toMatchObject({ token_id: issued.id });
  time += 60_000;
  expect(await store.tokens.authenticate(next)).toBeUndefined();
  expect(await store.tokens.list(member.user_id)).toMatchObject([{ id: issued.id }]);
  expect(await store.tokens.revoke(issued.id, asServer)).toMatchObject({ id: issued.id });
  expect(await problemOf(store.tokens.get(issued.id))).toEqual({ code: 'not_found', what: 'token' });
  expect(hints.flatMap(({ credentials }) => credentials)).toEqual([issued.id, issued.id]);
  const absent = { code: 'not_found', what: 'token' };
  expect(await problemOf(store.tokens.revoke(parseTokenId(nowhere), asServer))).toEqual(absent);
  expect(await problemOf(store.tokens.rotate(parseTokenId(nowhere), next, asServer))).toEqual(absent);
  const stranger = store.tokens.issue(
    parseUserId(nowhere),
    { digest: someDigest(), name: '', scope: 'full' },
    asServer,
  );
  expect(await problemOf(stranger)).toEqual({ code: 'not_found', what: 'user' });
});

test('the last use of a token is recorded, at the latest when the store closes', async () => {
  const { store, url, member } = await makeWorld(postgres);
  const digest = someDigest();
  const { id } = await store.tokens.issue(member.user_id, { digest, name: '', scope: 'full' }, asServer);
  const other = await openTestStore(url);
  await other.tokens.authenticate(digest);
  expect((await store.tokens.get(id)).last_used_at).toBeUndefined();
  await other.close();
  expect((await store.tokens.get(id)).last_used_at).toMatch(/Z$/);
});

const key = (given: object = {}) => ({
  digest: someDigest(),
  name: 'fleet',
  expires_at: new Date(Date.now() + 3_600_000),
  uses: 2,
  security_groups: [],
  labels: [],
  ...given,
});

test('an enrollment key admits devices of its user until its uses are spent', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const asked = key();
  const issued = await store.enrollmentKeys.issue(org, member, asked);
  expect(issued).toEqual({
    id: issued.id,
    organization_id: org,
    user_id: member.user_id,
    name: 'fleet',
    expires_at: asked.expires_at.toISOString(),
    uses_left: 2,
    created_at: expect.stringMatching(/Z$/),
  });
  expect(await store.enrollmentKeys.authenticate(asked.digest)).toEqual(issued);
  const enroll = () => store.devices.create(org, member, device(member.user_id, { enrollment_key: issued.id }));
  const outcomes = await Promise.allSettled([enroll(), enroll(), enroll(), enroll()]);
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  expect(await problemOf(enroll())).toEqual({ code: 'enrollment_key_spent' });
  expect(await store.enrollmentKeys.authenticate(asked.digest)).toBeUndefined();
  expect((await store.enrollmentKeys.get(org, issued.id)).uses_left).toBe(0);
});

test('an enrollment that fails takes no use of its key', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const { id } = await store.enrollmentKeys.issue(org, member, key());
  const taken = await store.devices.create(org, member, device(member.user_id));
  const { public_key } = taken.record;
  const enroll = store.devices.create(
    org,
    member,
    device(member.user_id, { enrollment_key: id, fields: { public_key } }),
  );
  expect(await problemOf(enroll)).toEqual({ code: 'public_key_taken' });
  expect((await store.enrollmentKeys.get(org, id)).uses_left).toBe(2);
});

test("a key's preset groups apply to devices that name none, and the key holds them as a device does", async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const groups = await Promise.all(
    ['a', 'b'].map(async () => parseGroupId((await store.groups.create(org, owner, 'organization', group())).id)),
  );
  const [first, second] = [parseGroupId(groups[0]), parseGroupId(groups[1])];
  const { id } = await store.enrollmentKeys.issue(
    org,
    member,
    key({ name: 'fleet', security_groups: groups, uses: 5 }),
  );
  const enroll = async (security_groups: (typeof first)[]) =>
    (await store.devices.create(org, member, device(member.user_id, { enrollment_key: id, security_groups }))).record;
  expect((await enroll([])).security_groups).toEqual(groups);
  const kept = await enroll([second]);
  expect(kept.security_groups).toEqual([second]);
  for (const { record } of await store.devices.list(org))
    if (record.id !== kept.id) await store.devices.delete(org, owner, record.id);
  const remove = (detach: boolean) => store.groups.delete(org, owner, 'organization', first, { detach });
  const by = { label: false, list: false };
  const refusal = { code: 'group_in_use', by, devices: [], enrollment_keys: [{ id, name: 'fleet' }] };
  expect(await problemOf(remove(false))).toEqual(refusal);
  await remove(true);
  expect(await problemOf(enroll([]))).toEqual({ code: 'enrollment_key_spent' });
  expect(await store.enrollmentKeys.list(org)).toEqual([]);
  const bad = store.enrollmentKeys.issue(org, member, key({ security_groups: [first] }));
  expect(await problemOf(bad)).toMatchObject({ code: 'group_list_invalid' });
});

test('a key whose group is gone, by whatever way, admits no device: it never falls back to the open default', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const { record } = await store.groups.create(org, owner, 'organization', group());
  const { id } = await store.enrollmentKeys.issue(org, owner, key({ security_groups: [record.id], uses: 5 }));
  await query(url, `DELETE FROM security_groups WHERE id = '${record.id}'`);
  const late = store.devices.create(org, owner, device(owner.user_id, { enrollment_key: id }));
  expect(await problemOf(late)).toMatchObject({ code: 'group_list_invalid' });
  expect(await store.devices.list(org)).toEqual([]);
});

test('keys expire, are listed by user, revoked, and go with their member', async () => {
  let time = Date.parse('2026-01-01T00:00:00Z');
  const { store, org, owner, member } = await makeWorld(postgres, { clock: () => time });
  const asked = key({ expires_at: new Date(time + 1000) });
  const mine = await store.enrollmentKeys.issue(org, member, asked);
  const theirs = await store.enrollmentKeys.issue(org, owner, key({ expires_at: new Date(time + 1e9) }));
  const third = await store.enrollmentKeys.issue(org, member, key({ expires_at: new Date(time + 1e9) }));
  expect((await store.enrollmentKeys.list(org)).map(({ id }) => id)).toEqual([mine.id, theirs.id, third.id]);
  expect((await store.enrollmentKeys.list(org, { user_id: owner.user_id })).map(({ id }) => id)).toEqual([theirs.id]);
  time += 1000;
  expect(await store.enrollmentKeys.authenticate(asked.digest)).toBeUndefined();
  const late = store.devices.create(org, member, device(member.user_id, { enrollment_key: mine.id }));
  expect(await problemOf(late)).toEqual({ code: 'enrollment_key_spent' });
  await store.enrollmentKeys.revoke(org, member, mine.id);
  const absent = { code: 'not_found', what: 'enrollment_key' };
  expect(await problemOf(store.enrollmentKeys.get(org, mine.id))).toEqual(absent);
  expect(await problemOf(store.enrollmentKeys.revoke(org, member, parseEnrollmentKeyId(nowhere)))).toEqual(absent);
  await store.members.remove(org, owner, member.user_id);
  expect((await store.enrollmentKeys.list(org)).map(({ id }) => id)).toEqual([theirs.id]);
});
