/** Proves the quotas (reference 8 (9)): they are exact, for concurrent requests and for every way to create a record. */
import { asServer } from '../contract/actor.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import type { CountedQuota } from '../contract/quotas.ts';
import { device, group, join, makeWorld, openTestStore, query, someDigest, type World } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const later = new Date(Date.UTC(2100, 0));
const key = (expires_at = later) => ({
  digest: someDigest(),
  name: '',
  expires_at,
  uses: 5,
  security_groups: [],
  labels: [],
});
const token = (expires_at = later) => ({ digest: someDigest(), name: '', scope: 'full' as const, expires_at });

/** One more of each, by which server asks is of no matter. */
const makers: Readonly<Record<CountedQuota, (world: World) => Promise<unknown>>> = {
  tokens: ({ store, member }) => store.tokens.issue(member.user_id, token(), asServer),
  organizations: ({ store, member }) =>
    store.organizations.create(member.user_id, { name: '', description: '' }, asServer),
  groups: ({ store, org, owner }) => store.groups.create(org, owner, 'organization', group()),
  devices: ({ store, org, owner }) => store.devices.create(org, owner, device(owner.user_id)),
  enrollment_keys: ({ store, org, owner }) => store.enrollmentKeys.issue(org, owner, key()),
  webhooks: ({ store, org, owner }) =>
    store.webhooks.create(org, owner, { name: '', url: 'https://x', events: [], offline_after: 900, secret: '' }),
  members: async ({ store, org, owner }) => {
    const { id } = await store.users.create({ username: someDigest().toString('hex') }, asServer);
    return store.members.add(org, owner, { user_id: id });
  },
};

/** What is there from the start: the default group; the owner and the member. */
const before: Readonly<Record<CountedQuota, number>> = {
  tokens: 0,
  organizations: 0,
  groups: 1,
  devices: 0,
  enrollment_keys: 0,
  webhooks: 0,
  members: 2,
};

const all = Object.keys(makers) as CountedQuota[];

test.each(all)('of 40 who ask for one more of the %s at once, as many get it as there is room for', async (what) => {
  const limit = 17;
  const world = await makeWorld(postgres, { quotas: { [what]: limit } });
  const other = { ...world, store: await openTestStore(world.url, { quotas: { [what]: limit } }) };
  const outcomes = await Promise.allSettled(
    Array.from({ length: 40 }, (_, n) => makers[what](n % 2 === 0 ? world : other)),
  );
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(limit - before[what]);
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected')
      expect(outcome.reason).toMatchObject({ problem: { code: 'limit_reached', what, limit } });
  }
});

test('what goes makes room: devices and groups that are deleted, one by one, detached, or with their member', async () => {
  const { store, url, org, owner } = await makeWorld(postgres, { quotas: { devices: 3, groups: 3 } });
  const guest = await join(store, org, owner, 'guest');
  const held = await store.groups.create(org, guest, guest.user_id, group());
  const common = await store.groups.create(org, owner, 'organization', group());
  for (let n = 0; n < 2; n += 1)
    await store.devices.create(org, guest, device(guest.user_id, { security_groups: [held.record.id] }));
  const last = await store.devices.create(org, owner, device(owner.user_id, { security_groups: [common.record.id] }));
  const more = () => store.devices.create(org, owner, device(owner.user_id));
  await expect(more()).rejects.toMatchObject({ code: 'limit_reached' });
  await store.devices.delete(org, owner, last.record.id);
  await more();
  await store.groups.delete(org, owner, 'organization', common.record.id);
  await store.groups.create(org, owner, 'organization', group());
  await expect(store.groups.create(org, owner, 'organization', group())).rejects.toMatchObject({
    code: 'limit_reached',
  });
  await store.members.remove(org, owner, guest.user_id);
  await Promise.all([more(), more()]);
  await store.groups.create(org, owner, 'organization', group());
  const counted = await query(url, `SELECT devices, groups FROM heads WHERE org_id = '${org}'`);
  const there = await query(
    url,
    `SELECT (SELECT count(*)::integer FROM devices) AS devices, (SELECT count(*)::integer FROM security_groups WHERE org_id = '${org}') AS groups`,
  );
  expect(counted).toEqual(there);
});

test('the default group is reset also where there are as many groups as there may be', async () => {
  const { store, org, owner } = await makeWorld(postgres, { quotas: { groups: 1 } });
  const [old] = await store.groups.list(org, { reader: owner.user_id });
  if (old === undefined) throw new Error('there is always a default group');
  await store.groups.delete(org, owner, 'organization', old.record.id);
  expect(await store.groups.list(org, { reader: owner.user_id })).toHaveLength(1);
});

test("a user's device tokens do not count, and what has expired or is used up makes room", async () => {
  let time = Date.UTC(2026, 0);
  const quotas = { tokens: 2, enrollment_keys: 2 };
  const { store, org, owner } = await makeWorld(postgres, { clock: () => time, quotas });
  for (let n = 0; n < 3; n += 1)
    await store.devices.create(org, owner, device(owner.user_id, { token: { digest: someDigest(), name: '' } }));
  const soon = new Date(time + 1_000);
  for (let n = 0; n < 2; n += 1) {
    await store.tokens.issue(owner.user_id, token(soon), asServer);
    await store.enrollmentKeys.issue(org, owner, key(soon));
  }
  await expect(store.tokens.issue(owner.user_id, token(), asServer)).rejects.toMatchObject({ code: 'limit_reached' });
  await expect(store.enrollmentKeys.issue(org, owner, key())).rejects.toMatchObject({ code: 'limit_reached' });
  time += 2_000;
  await store.tokens.issue(owner.user_id, token(), asServer);
  await store.enrollmentKeys.issue(org, owner, key());
  expect(await store.enrollmentKeys.list(org)).toHaveLength(1);
  expect((await store.tokens.list(owner.user_id)).filter(({ kind }) => kind === 'user')).toHaveLength(1);
});
