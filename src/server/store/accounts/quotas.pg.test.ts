/** Proves the quotas (reference 8 (9)): they are exact, for concurrent requests and for every way to create a record. */
import { asServer } from '../data/actor.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import type { CountedQuota } from '../data/quotas.ts';
import {
  device,
  group,
  join,
  makeWorld,
  openTestStore,
  problemOf,
  query,
  someDigest,
  ssh,
  type World,
} from '../store.fixture.ts';

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
const makers: Readonly<Record<Exclude<CountedQuota, 'bytes' | 'member_bytes'>, (world: World) => Promise<unknown>>> = {
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
  selectors: ({ store, org, owner }) =>
    store.groups.create(org, owner, 'organization', group({ applies_to: [{ labels: ['web'] }] })),
  rules: ({ store, org, owner }) => store.groups.create(org, owner, 'organization', group()),
  member_rules: ({ store, org, member }) => store.groups.create(org, member, member.user_id, group()),
};

/** What is there from the start: the default group with its rules; the owner and the member. */
const before: Readonly<Record<keyof typeof makers, number>> = {
  tokens: 0,
  organizations: 0,
  groups: 1,
  devices: 0,
  enrollment_keys: 0,
  webhooks: 0,
  members: 2,
  selectors: 0,
  rules: 4,
  member_rules: 0,
};

const all = Object.keys(makers) as (keyof typeof makers)[];

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

const rules = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ ...ssh, from_port: n + 1, to_port: n + 1 }));
/** The sums as they are kept, and as they are. */
async function sumsOf({ url, org }: World) {
  const [kept] = await query<{ sums: object }>(
    url,
    `SELECT json_object_agg(owner_id, json_build_array(rules, bytes, selectors)) AS sums FROM group_sums WHERE org_id = '${org}' AND rules + bytes + selectors > 0`,
  );
  const [counted] = await query<{ sums: object }>(
    url,
    `SELECT json_object_agg(o, s) AS sums FROM (SELECT o, json_build_array(
       sum(coalesce(json_array_length(r -> 'inbound_rules'), 0) + coalesce(json_array_length(r -> 'outbound_rules'), 0)),
       sum(octet_length(body)), sum(coalesce(json_array_length(r -> 'applies_to'), 0))) AS s
     FROM security_groups g CROSS JOIN LATERAL (SELECT (g.body || '}')::json) AS b (r), LATERAL (VALUES (g.org_id), (g.user_id)) AS v (o) WHERE g.org_id = '${org}' AND o IS NOT NULL GROUP BY o) AS c`,
  );
  return { kept: kept?.sums, counted: counted?.sums };
}

test('the rules of a member and of an organization are limited in every way to write them, and what shrinks is never refused', async () => {
  const world = await makeWorld(postgres, { quotas: { rules: 30, member_rules: 20 } });
  const { store, org, owner, member } = world;
  const everything = { ...owner, rolesFor: () => 0xffff };
  const mine = await store.groups.create(org, member, member.user_id, group({ inbound_rules: rules(15) }));
  const common = await store.groups.create(org, owner, 'organization', group({ inbound_rules: rules(10) }));
  const { id } = mine.record;
  const ofMember = { code: 'limit_reached', what: 'member_rules', limit: 20 };
  const ofAll = { code: 'limit_reached', what: 'rules', limit: 30 };
  const patch = (count: number) =>
    store.groups.update(org, member, member.user_id, id, { inbound_rules: rules(count) });
  const patchCommon = (count: number) =>
    store.groups.update(org, owner, 'organization', common.record.id, { inbound_rules: rules(count) });
  expect(await problemOf(patch(21))).toMatchObject(ofMember);
  expect(await problemOf(patch(17))).toMatchObject(ofAll);
  expect(
    await problemOf(store.groups.create(org, member, member.user_id, group({ inbound_rules: rules(6) }))),
  ).toMatchObject(ofMember);
  const create = {
    type: 'create',
    id: undefined,
    owner: 'organization',
    group: group({ inbound_rules: rules(2) }),
  } as const;
  expect(
    await problemOf(store.changeSets.apply(org, everything, { groups: [create], devices: [], deletes: [] })),
  ).toMatchObject(ofAll);
  // A change set that was written and cannot be reverted, because there is no room any more.
  const { change_id } = await store.changeSets.apply(org, everything, {
    groups: [{ type: 'update', id: common.record.id, patch: { inbound_rules: rules(5) } }],
    devices: [],
    deletes: [],
  });
  await patch(20);
  expect(await problemOf(store.changeSets.revert(org, everything, change_id))).toMatchObject(ofAll);
  await store.groups.delete(org, owner, 'organization', common.record.id);
  await store.groups.create(org, owner, 'organization', group({ inbound_rules: rules(6) }));
  expect(
    await problemOf(
      store.groups.recreate(org, owner, 'organization', common.record.id, group({ inbound_rules: rules(1) })),
    ),
  ).toMatchObject(ofAll);
  // With limits that were lowered since.
  const lower = await openTestStore(world.url, { quotas: { rules: 10, member_rules: 5 } });
  await lower.groups.update(org, member, member.user_id, id, { inbound_rules: rules(12) });
  await lower.groups.update(org, member, member.user_id, id, { group_name: 'x' });
  expect(await problemOf(patch(13))).toMatchObject({ ...ofMember, limit: 5 });
  expect(await problemOf(patchCommon(1))).toMatchObject({ code: 'not_found' });
  const { kept, counted } = await sumsOf(world);
  expect(kept).toEqual(counted);
});

test('the bytes of groups are limited, and the sums stay those of the groups through trials, removals and deletions', async () => {
  const world = await makeWorld(postgres, { quotas: { bytes: 20_000, member_bytes: 8_000 } });
  const { store, org, owner, member } = world;
  const large = (length: number) => group({ group_description: 'x'.repeat(length) });
  const make = (length: number) => store.groups.create(org, member, member.user_id, large(length));
  await make(4_000);
  expect(await problemOf(make(4_000))).toMatchObject({ code: 'limit_reached', what: 'member_bytes', limit: 8_000 });
  const common = await store.groups.create(org, owner, 'organization', large(10_000));
  expect(await problemOf(store.groups.create(org, owner, 'organization', large(8_000)))).toMatchObject({
    code: 'limit_reached',
    what: 'bytes',
    limit: 20_000,
  });
  expect(await sumsOf(world)).toMatchObject((({ counted }) => ({ kept: counted }))(await sumsOf(world)));
  await store.groups.delete(org, owner, 'organization', common.record.id);
  await store.members.remove(org, owner, member.user_id);
  const { kept, counted } = await sumsOf(world);
  expect(kept).toEqual(counted);
  expect(Object.keys(kept ?? {})).toEqual([org]);
  await store.organizations.delete(org, owner);
  expect(await query(world.url, `SELECT FROM group_sums WHERE org_id = '${org}'`)).toEqual([]);
});

test('what a change on trial replaced counts until the trial ends, so that its end is never too much', async () => {
  const world = await makeWorld(postgres, { quotas: { rules: 20 } });
  const { store, org, owner } = world;
  const { record } = await store.groups.create(org, owner, 'organization', group({ inbound_rules: rules(12) }));
  const options = { trial: { confirm_within: 60 } };
  await store.groups.update(org, owner, 'organization', record.id, { inbound_rules: rules(1) }, options);
  expect(
    await problemOf(store.groups.create(org, owner, 'organization', group({ inbound_rules: rules(4) }))),
  ).toMatchObject({
    code: 'limit_reached',
    what: 'rules',
  });
});
