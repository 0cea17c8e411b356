/** Proves the store's promises for security groups. */
import { asServer } from '../data/actor.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseGroupId } from '../../../policy/ids.ts';
import { brief, device, group, logOf, makeWorld, problemOf, ssh } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const nowhere = parseGroupId('00000000-0000-4000-8000-000000000000');

test('an organization is born with its default group, which has the four open rules', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const [only, ...others] = await store.groups.list(org, { reader: owner.user_id });
  expect(others).toEqual([]);
  expect(only?.record).toEqual({
    id: only?.id,
    group_name: 'default',
    group_description: expect.any(String),
    org_id: org,
    is_default: true,
    inbound_rules: ['ipv4', 'ipv6', 'icmp', 'icmpv6'].map((ip_protocol) => ({
      ip_protocol,
      from_port: 0,
      to_port: 0,
      ip_ranges: [],
    })),
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    updated_at: only?.record.created_at,
    revision: 1,
  });
  expect((await store.organizations.get(org)).security_groups).toEqual([only?.id]);
});

test('a group is created with its own revision and read back as it was answered', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const made = await store.groups.create(org, owner, 'organization', group({ group_name: 'naïve "web" \\ 🕸' }));
  expect(made).toMatchObject({
    revision: 2,
    record: { group_name: 'naïve "web" \\ 🕸', org_id: org, inbound_rules: [ssh] },
  });
  expect(made.record).not.toHaveProperty('outbound_rules');
  expect(made.record).not.toHaveProperty('user_id');
  expect(made.record).not.toHaveProperty('is_default');
  const read = await store.groups.get(org, parseGroupId(made.id), { reader: member.user_id });
  expect(read.json).toBe(made.json);
  expect(brief(await logOf(store, org))).toEqual(['1 security-groups change', '2 security-groups change']);
  expect((await logOf(store, org)).at(-1)?.json).toBe(made.json);
});

test('a patch changes what it names, and one that changes nothing takes no revision', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const made = await store.groups.create(org, owner, 'organization', group());
  const id = parseGroupId(made.id);
  const patched = await store.groups.update(org, owner, 'organization', id, {
    outbound_rules: [ssh],
    group_description: 'x',
  });
  expect(patched.record).toEqual({
    ...made.record,
    outbound_rules: [ssh],
    group_description: 'x',
    revision: 3,
    updated_at: patched.record.updated_at,
  });
  const same = await store.groups.update(org, owner, 'organization', id, { group_description: 'x' });
  expect(same.json).toBe(patched.json);
  const emptied = await store.groups.update(org, owner, 'organization', id, { inbound_rules: [], outbound_rules: [] });
  expect(emptied.record).not.toHaveProperty('inbound_rules');
  expect((await store.organizations.get(org)).revision).toBe(4);
});

test('a group is changed and deleted only under the revision that the caller expects', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const { id: text, revision } = await store.groups.create(org, owner, 'organization', group());
  const id = parseGroupId(text);
  const update = (name: string, if_match: number) =>
    store.groups.update(org, owner, 'organization', id, { group_name: name }, { if_match });
  expect(await problemOf(update('a', revision - 1))).toEqual({ code: 'precondition_failed', revision });
  const next = await update('a', revision);
  expect(await problemOf(update('b', revision))).toEqual({ code: 'precondition_failed', revision: next.revision });
  const remove = (if_match: number) => store.groups.delete(org, owner, 'organization', id, { if_match });
  expect(await problemOf(remove(revision))).toEqual({ code: 'precondition_failed', revision: next.revision });
  await remove(next.revision);
  expect(await problemOf(remove(next.revision))).toEqual({ code: 'not_found', what: 'group' });
});

test("another owner's group, another organization's group and an absent one are all not found", async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const mine = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const other = await store.organizations.create(owner.user_id, { name: 'other', description: '' }, asServer);
  const absent = { code: 'not_found', what: 'group' };
  expect(await problemOf(store.groups.update(org, owner, 'organization', mine, { group_name: 'x' }))).toEqual(absent);
  expect(await problemOf(store.groups.update(org, owner, owner.user_id, mine, { group_name: 'x' }))).toEqual(absent);
  expect(await problemOf(store.groups.delete(org, owner, 'organization', mine))).toEqual(absent);
  expect(await problemOf(store.groups.update(other.id, owner, member.user_id, mine, { group_name: 'x' }))).toEqual(
    absent,
  );
  expect(await problemOf(store.groups.get(other.id, mine, { reader: member.user_id }))).toEqual(absent);
  expect(await problemOf(store.groups.update(org, owner, 'organization', nowhere, { group_name: 'x' }))).toEqual(
    absent,
  );
});

test('who is no member at the moment of the write is refused', async () => {
  const { store, org } = await makeWorld(postgres);
  const stranger = { user_id: (await store.users.create({ username: 'stranger' }, asServer)).id, ...asServer };
  expect(await problemOf(store.groups.create(org, stranger, stranger.user_id, group()))).toEqual({
    code: 'not_a_member',
  });
  expect(await problemOf(store.groups.update(org, stranger, 'organization', nowhere, {}))).toEqual({
    code: 'not_a_member',
  });
  expect(await problemOf(store.groups.delete(org, stranger, 'organization', nowhere))).toEqual({
    code: 'not_a_member',
  });
});

test("a user's group is seen by its owner, and by every member while a device holds it", async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const mine = await store.groups.create(org, member, member.user_id, group());
  const id = parseGroupId(mine.id);
  const seenBy = async (reader: typeof owner) =>
    (await store.groups.list(org, { reader: reader.user_id })).map((item) => item.id);
  const absent = { code: 'not_found', what: 'group' };
  expect(mine.record.user_id).toBe(member.user_id);
  expect(await seenBy(member)).toContain(id);
  expect(await seenBy(owner)).not.toContain(id);
  expect(await problemOf(store.groups.get(org, id, { reader: owner.user_id }))).toEqual(absent);

  const held = await store.devices.create(org, member, device(member.user_id, { security_groups: [id] }));
  expect(await seenBy(owner)).toContain(id);
  expect((await store.groups.get(org, id, { reader: owner.user_id })).revision).toBe(held.revision - 1);

  await store.devices.update(org, member, held.record.id, { security_groups: [] });
  expect(await seenBy(owner)).not.toContain(id);
  expect(await seenBy(member)).toContain(id);
});

test('entering and leaving the common view takes a revision of the group: before its first device, after its last', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const id = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const first = await store.devices.create(org, member, device(member.user_id, { security_groups: [id] }));
  const second = await store.devices.create(org, member, device(member.user_id, { security_groups: [id] }));
  await store.devices.update(org, member, first.record.id, { security_groups: [] });
  await store.devices.delete(org, member, second.record.id);
  await store.groups.update(org, member, member.user_id, id, { group_name: 'private again' });
  const entries = await logOf(store, org, 1);
  expect(entries.map((entry) => [entry.revision, entry.kind, entry.type, entry.only_for, entry.left_at])).toEqual([
    [2, 'security-groups', 'change', member.user_id, 0],
    [3, 'security-groups', 'change', undefined, 0],
    [4, 'device', 'change', undefined, 0],
    [5, 'device', 'change', undefined, 0],
    [6, 'device', 'change', undefined, 0],
    [7, 'device', 'delete', undefined, 0],
    [8, 'security-groups', 'change', member.user_id, 8],
    [9, 'security-groups', 'change', member.user_id, 8],
  ]);
});

test('a group in use is not deleted; the refusal names its devices', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const id = parseGroupId((await store.groups.create(org, owner, 'organization', group())).id);
  const made = await Promise.all(
    ['a', 'b'].map((hostname) =>
      store.devices.create(org, owner, device(owner.user_id, { security_groups: [id], fields: { hostname } })),
    ),
  );
  const problem = await problemOf(store.groups.delete(org, owner, 'organization', id));
  expect(problem).toEqual({
    code: 'group_in_use',
    by: { label: false, list: true },
    devices: made
      .map(({ record }) => ({ id: record.id, hostname: record.hostname }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    enrollment_keys: [],
  });
});

test('detaching takes the group off its devices and deletes it, a revision each, devices first', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const [keep, drop] = await Promise.all(
    ['keep', 'drop'].map((group_name) => store.groups.create(org, owner, 'organization', group({ group_name }))),
  );
  const [kept, dropped] = [parseGroupId(keep?.id), parseGroupId(drop?.id)];
  for (const list of [[dropped], [dropped, kept], [kept]]) {
    await store.devices.create(org, owner, device(owner.user_id, { security_groups: list }));
  }
  const before = (await store.organizations.get(org)).revision;
  const gone = await store.groups.delete(org, owner, 'organization', dropped, { detach: true });
  expect(brief(await logOf(store, org, before)).map((line) => line.replace(/^\d+ /, ''))).toEqual([
    'device change',
    'device change',
    'security-groups delete',
  ]);
  expect(gone.revision).toBe(before + 3);
  expect(gone.record).toMatchObject({ id: dropped, group_name: 'drop' });
  const lists = (await store.devices.list(org)).map(({ record }) => record.security_groups);
  expect(lists).toEqual([undefined, [kept], [kept]]);
});

test('deleting the default group resets it: the old one goes and a fresh one comes in the next revision', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const [old] = await store.groups.list(org, { reader: owner.user_id });
  const id = parseGroupId(old?.id);
  await store.groups.update(org, owner, 'organization', id, { inbound_rules: [], group_name: 'closed' });
  const gone = await store.groups.delete(org, owner, 'organization', id);
  expect(gone.record).toMatchObject({ id, group_name: 'closed', is_default: true, revision: 3 });
  const [fresh, ...others] = await store.groups.list(org, { reader: owner.user_id });
  expect(others).toEqual([]);
  expect(fresh?.record).toMatchObject({ is_default: true, group_name: 'default', revision: 4 });
  expect(fresh?.record.inbound_rules).toHaveLength(4);
  expect(fresh?.id).not.toBe(id);
  expect(brief(await logOf(store, org, 2))).toEqual(['3 security-groups delete', '4 security-groups change']);
});

test('lists narrow by owner and revision and page without repeating or skipping', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  for (let index = 0; index < 5; index += 1) {
    await store.groups.create(org, owner, 'organization', group({ group_name: `org ${index}` }));
    await store.groups.create(org, member, member.user_id, group({ group_name: `own ${index}` }));
  }
  const names = async (query: object) =>
    (await store.groups.list(org, { reader: member.user_id, ...query })).map(({ record }) => record.group_name);
  expect(await names({ owner: member.user_id })).toEqual([0, 1, 2, 3, 4].map((index) => `own ${index}`));
  expect(await names({ owner: 'organization' })).toEqual([
    'default',
    ...[0, 1, 2, 3, 4].map((index) => `org ${index}`),
  ]);
  expect(await names({ gt_revision: 9 })).toEqual(['org 4', 'own 4']);
  expect((await store.groups.list(org, { reader: owner.user_id, owner: member.user_id })).length).toBe(0);
  const all = await names({});
  const paged: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await store.groups.list(org, { reader: member.user_id, limit: 4, after });
    paged.push(...page.map(({ record }) => record.group_name));
    after = page.at(-1)?.id;
    if (page.length < 4) break;
  }
  expect(paged).toEqual(all);
  expect(all).toHaveLength(11);
});

test('rules that expire between two moments are found by group and moment, with the time since when the group has them', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const day = 86_400_000;
  const start = Date.now();
  const at = (days: number): string => new Date(start + days * day).toISOString();
  const soon = { ...ssh, expires_at: at(1) };
  const made = await store.groups.create(
    org,
    owner,
    'organization',
    group({ group_name: 'guests', inbound_rules: [ssh, soon, { ...ssh, expires_at: at(9) }], outbound_rules: [soon] }),
  );
  const id = parseGroupId(made.id);
  const patched = await store.groups.update(org, owner, 'organization', id, {
    inbound_rules: [soon, { ...ssh, from_port: 21, to_port: 23, expires_at: at(1.5) }],
  });
  const found = await store.groups.expiring(org, { from: start, until: start + 2 * day });
  expect(found).toEqual([
    { group_id: id, group_name: 'guests', expires_at: at(1), rules: 2, since: Date.parse(made.record.updated_at) },
    { group_id: id, group_name: 'guests', expires_at: at(1.5), rules: 1, since: Date.parse(patched.record.updated_at) },
  ]);
  expect(await store.groups.expiring(org, { from: start + 2 * day, until: start + 8 * day })).toEqual([]);
});
