/** Proves the store's promises for organizations and their members. */
import { asServer } from '../data/actor.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseGroupId, parseUserId } from '../../../policy/ids.ts';
import { brief, device, group, logOf, makeWorld, problemOf, someDigest } from '../store.fixture.ts';
import type { Hint } from '../data/change-log.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const nowhere = '00000000-0000-4000-8000-000000000000';

test('an organization is made whole: record, owner as member, default group, revision 1', async () => {
  const { store, owner } = await makeWorld(postgres);
  const made = await store.organizations.create(owner.user_id, { name: 'Ünïcode', description: 'd' }, asServer);
  expect(made).toEqual({
    id: made.id,
    name: 'Ünïcode',
    description: 'd',
    owner_id: owner.user_id,
    observe: 'counters',
    refuse_with: 'drop',
    security_groups: [expect.any(String)],
    revision: 1,
    created_at: expect.stringMatching(/Z$/),
    updated_at: made.created_at,
  });
  expect(await store.organizations.get(made.id)).toEqual(made);
  expect(await store.members.list(made.id)).toMatchObject([
    { user_id: owner.user_id, username: 'olga', role: 'owner' },
  ]);
  const unknown = store.organizations.create(parseUserId(nowhere), { name: 'x', description: '' }, asServer);
  expect(await problemOf(unknown)).toEqual({ code: 'not_found', what: 'user' });
});

test("an organization's own groups are listed with it, the default first, its users' not", async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const first = (await store.organizations.get(org)).security_groups;
  const more = await store.groups.create(org, owner, 'organization', group());
  await store.groups.create(org, member, member.user_id, group());
  expect((await store.organizations.get(org)).security_groups).toEqual([...first, more.id]);
  await store.groups.delete(org, owner, 'organization', parseGroupId(first[0]));
  const [standard, second] = (await store.organizations.get(org)).security_groups;
  expect([standard === first[0], second]).toEqual([false, more.id]);
});

test('a change of the organization takes a revision, under the head that the caller expects', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const changed = await store.organizations.update(org, owner, { name: 'new' }, { if_match: 1 });
  expect(changed).toMatchObject({ name: 'new', description: '', revision: 2 });
  const stale = store.organizations.update(org, owner, { name: 'other' }, { if_match: 1 });
  expect(await problemOf(stale)).toEqual({ code: 'precondition_failed', revision: 2 });
  expect((await store.organizations.update(org, owner, { name: 'new' })).revision).toBe(2);
  expect(await store.organizations.get(org)).toEqual(changed);
  expect(brief(await logOf(store, org))).toEqual(['1 security-groups change', '2 organization change']);
});

test('a user lists the organizations it is a member of', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const mine = await store.organizations.create(member.user_id, { name: 'mine', description: '' }, asServer);
  expect((await store.organizations.list({ member: member.user_id })).map(({ id }) => id)).toEqual([org, mine.id]);
  expect((await store.organizations.list({ member: owner.user_id })).map(({ id }) => id)).toEqual([org]);
  expect(
    (await store.organizations.list({ member: member.user_id, limit: 1, after: org })).map(({ id }) => id),
  ).toEqual([mine.id]);
});

test('a deleted organization takes everything along, and says so to whoever listens', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const digest = someDigest();
  const own = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const token = { digest, name: '' };
  await store.devices.create(org, member, device(member.user_id, { token, security_groups: [own] }));
  const key = {
    digest: someDigest(),
    name: '',
    expires_at: new Date(Date.now() + 1e6),
    uses: 1,
    security_groups: [own],
    labels: [],
  };
  await store.enrollmentKeys.issue(org, member, key);
  const hints: Hint[] = [];
  store.log.onHint((hint) => hints.push(hint));
  const before = await store.organizations.get(org);
  const moved = store.organizations.delete(org, owner, { if_match: before.revision - 1 });
  expect(await problemOf(moved)).toEqual({ code: 'precondition_failed', revision: before.revision });
  expect(await store.organizations.delete(org, owner, { if_match: before.revision })).toEqual({
    ...before,
    revision: before.revision + 1,
  });
  expect(await problemOf(store.organizations.get(org))).toEqual({ code: 'not_found', what: 'organization' });
  expect(await store.members.of(org, owner.user_id)).toBeUndefined();
  expect(await store.tokens.authenticate(digest)).toBeUndefined();
  expect(await store.enrollmentKeys.authenticate(key.digest)).toBeUndefined();
  expect((await store.log.heads([org])).organizations.size).toBe(0);
  expect(hints.flatMap((hint) => hint.deleted_organizations)).toEqual([org]);
  expect(hints.flatMap((hint) => hint.credentials)).toHaveLength(1);
});

test('members are added by id and by name, once', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const third = await store.users.create({ username: 'third' }, asServer);
  expect(await store.members.of(org, third.id)).toEqual({ role: undefined });
  expect(await store.members.add(org, owner, { username: 'third' })).toMatchObject({
    user_id: third.id,
    role: 'member',
  });
  expect(await store.members.of(org, third.id)).toEqual({ role: 'member' });
  expect(await problemOf(store.members.add(org, owner, { user_id: third.id }))).toEqual({ code: 'already_member' });
  const absent = { code: 'not_found', what: 'user' };
  expect(await problemOf(store.members.add(org, owner, { username: 'nobody' }))).toEqual(absent);
  expect(await problemOf(store.members.add(org, owner, { user_id: parseUserId(nowhere) }))).toEqual(absent);
  const listed = await store.members.list(org);
  expect(listed.map(({ user_id }) => user_id)).toEqual([owner.user_id, member.user_id, third.id]);
  expect((await store.members.list(org, { limit: 1, after: owner.user_id })).map(({ user_id }) => user_id)).toEqual([
    member.user_id,
  ]);
});

test('a removed member loses its devices, groups and keys in that organization, with events, devices first', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const digest = someDigest();
  const own = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const hidden = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  await store.devices.create(
    org,
    member,
    device(member.user_id, { security_groups: [own], token: { digest, name: '' } }),
  );
  await store.devices.create(org, member, device(member.user_id));
  const kept = await store.devices.create(org, owner, device(owner.user_id));
  const elsewhere = await store.organizations.create(member.user_id, { name: 'mine', description: '' }, asServer);
  const safe = await store.devices.create(elsewhere.id, member, device(member.user_id));
  const head = (await store.organizations.get(org)).revision;

  expect(await store.members.remove(org, owner, member.user_id)).toMatchObject({
    member: { user_id: member.user_id, username: 'mark' },
  });
  const entries = await logOf(store, org, head);
  expect(entries.map(({ kind, type, id, only_for }) => [kind, type, kind === 'device' ? '' : id, only_for])).toEqual([
    ['device', 'delete', '', undefined],
    ['device', 'delete', '', undefined],
    ['security-groups', 'delete', own, undefined],
    ['security-groups', 'delete', hidden, member.user_id],
  ]);
  expect((await store.devices.list(org)).map(({ id }) => id)).toEqual([kept.id]);
  expect((await store.devices.list(elsewhere.id)).map(({ id }) => id)).toEqual([safe.id]);
  expect(await store.tokens.authenticate(digest)).toBeUndefined();
  expect(await problemOf(store.devices.create(org, member, device(member.user_id)))).toEqual({ code: 'not_a_member' });
  expect(await problemOf(store.members.remove(org, owner, member.user_id))).toEqual({
    code: 'not_found',
    what: 'member',
  });
});

test('a lower phase is held up by what it could not express', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  expect(await store.phaseObstacles(1)).toEqual([]);
  const ids = await Promise.all(
    ['a', 'b'].map(async () => parseGroupId((await store.groups.create(org, owner, 'organization', group())).id)),
  );
  await store.devices.create(org, owner, device(owner.user_id, { security_groups: ids }));
  expect(await store.phaseObstacles(3)).toEqual([]);
  expect(await store.phaseObstacles(2)).toEqual([
    `organization ${org} (acme): 1 device has more than 1 group in the list`,
  ]);
  expect(await store.phaseObstacles(1)).toEqual([
    `organization ${org} (acme): 2 groups besides the default`,
    `organization ${org} (acme): 1 device has more than 0 groups in the list`,
  ]);
});
