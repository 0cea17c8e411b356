/** Proves the store's promises for devices. */
import { asServer } from '../data/actor.ts';
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId, parseOrganizationId } from '../../../policy/ids.ts';
import { brief, device, fields, group, join, logOf, makeWorld, problemOf, someDigest } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const nowhere = parseDeviceId('00000000-0000-4000-8000-000000000000');

test('a device is answered, stored and logged with every field as it was given', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const given = fields({
    hostname: 'käse"\\\n\t\u0001',
    local_ip: '10.0.0.1:51820',
    tunnel_ip: '100.64.0.1',
    child_prefix: ['10.1.0.0/16', '2001:db8::/48'],
    relay: true,
    discovery: true,
    reflexive_ip4: '198.51.100.7',
    endpoint_local_address_ip4: '192.0.2.1',
    symmetric_nat: true,
    addresses: ['10.0.0.1', 'fd00::1'],
    labels: ['app', 'db'],
  });
  const made = await store.devices.create(org, owner, device(member.user_id, { fields: given }));
  expect(made.record).toEqual({
    id: made.id,
    user_id: member.user_id,
    organization_id: org,
    ...given,
    created_at: expect.stringMatching(/Z$/),
    updated_at: made.record.created_at,
    revision: 2,
  });
  expect(Object.keys(made.record).at(-1)).toBe('revision');
  expect((await store.devices.get(org, made.record.id)).json).toBe(made.json);
  expect((await store.devices.list(org)).map(({ json }) => json)).toEqual([made.json]);
  expect((await logOf(store, org)).at(-1)).toMatchObject({ kind: 'device', type: 'change', json: made.json });
});

test('a patch changes what it names; only child_prefix may become null', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const given = { child_prefix: ['10.0.0.0/8'], relay: true, hostname: 'a' };
  const made = await store.devices.create(org, member, device(member.user_id, { fields: given }));
  const { id } = made.record;
  const patched = await store.devices.update(org, member, id, { hostname: 'b', relay: false });
  const { updated_at } = patched.record;
  expect(patched.record).toEqual({ ...made.record, hostname: 'b', relay: false, revision: 3, updated_at });
  expect((await store.devices.update(org, member, id, { child_prefix: null })).record.child_prefix).toBeNull();
  const head = (await store.organizations.get(org)).revision;
  const same = await store.devices.update(org, member, id, { hostname: 'b', child_prefix: null });
  expect(same.revision).toBe(head);
  expect((await store.devices.update(org, member, id, {})).revision).toBe(head);
  expect((await store.organizations.get(org)).revision).toBe(head);
});

test('a device is changed and deleted only under the revision that the caller expects', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const { record, revision } = await store.devices.create(org, member, device(member.user_id));
  const failed = { code: 'precondition_failed', revision };
  const { id } = record;
  expect(await problemOf(store.devices.update(org, member, id, { hostname: 'x' }, { if_match: 1 }))).toEqual(failed);
  expect(await problemOf(store.devices.update(org, member, id, { security_groups: [] }, { if_match: 1 }))).toEqual(
    failed,
  );
  expect(await problemOf(store.devices.delete(org, member, id, { if_match: 1 }))).toEqual(failed);
  await store.devices.update(org, member, id, { hostname: 'x' }, { if_match: revision });
  const gone = await store.devices.delete(org, member, id, { if_match: revision + 1 });
  expect(gone.record).toMatchObject({ id, hostname: 'x', revision: revision + 2 });
  expect(brief(await logOf(store, org, revision))).toEqual(['3 device change', '4 device delete']);
});

test('a public key is unique within its organization, in creation and in change', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const key = { fields: { public_key: 'k'.repeat(44) } };
  await store.devices.create(org, member, device(member.user_id, key));
  const taken = { code: 'public_key_taken' };
  expect(await problemOf(store.devices.create(org, owner, device(owner.user_id, key)))).toEqual(taken);
  const other = await store.devices.create(org, owner, device(owner.user_id));
  expect(await problemOf(store.devices.update(org, owner, other.record.id, key.fields))).toEqual(taken);
  expect(
    await problemOf(store.devices.update(org, owner, other.record.id, { ...key.fields, security_groups: [] })),
  ).toEqual(taken);
  const second = await store.organizations.create(owner.user_id, { name: 'other', description: '' }, asServer);
  await store.devices.create(second.id, owner, device(owner.user_id, key));
  const moved = await store.devices.update(org, owner, other.record.id, { public_key: 'fresh' });
  await store.devices.create(org, owner, device(owner.user_id, { fields: { public_key: other.record.public_key } }));
  expect(moved.record.public_key).toBe('fresh');
});

test("a device's list may hold its user's groups and the organization's, and every bad entry is told at once", async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const other = await join(store, org, owner, 'other');
  const elsewhere = await store.organizations.create(owner.user_id, { name: 'elsewhere', description: '' }, asServer);
  const [common, own, others, foreign] = await Promise.all([
    store.groups.create(org, owner, 'organization', group()),
    store.groups.create(org, member, member.user_id, group()),
    store.groups.create(org, other, other.user_id, group()),
    store.groups.create(elsewhere.id, owner, 'organization', group()),
  ]);
  const id = (item: { id: string }) => parseGroupId(item.id);
  const good = [id(own), id(common)];
  const made = await store.devices.create(org, member, device(member.user_id, { security_groups: good }));
  expect(made.record.security_groups).toEqual(good);
  const standard = parseGroupId((await store.organizations.get(org)).security_groups[0]);
  const absent = parseGroupId('00000000-0000-4000-8000-000000000000');
  const list = [id(own), id(others), id(foreign), standard, id(own), absent];
  const problems = [
    { index: 1, code: 'unknown_group', group: id(others) },
    { index: 2, code: 'unknown_group', group: id(foreign) },
    { index: 3, code: 'default_group', group: standard },
    { index: 4, code: 'duplicate', group: id(own) },
    { index: 5, code: 'unknown_group', group: absent },
  ];
  const invalid = { code: 'group_list_invalid', problems };
  expect(await problemOf(store.devices.update(org, member, made.record.id, { security_groups: list }))).toEqual(
    invalid,
  );
  expect(await problemOf(store.devices.create(org, member, device(member.user_id, { security_groups: list })))).toEqual(
    invalid,
  );
  const reversed = good.toReversed();
  const updated = await store.devices.update(org, member, made.record.id, {
    security_groups: reversed,
    hostname: 'both',
  });
  expect(updated.record).toMatchObject({ security_groups: reversed, hostname: 'both' });
});

test('devices of strangers, for strangers, elsewhere and nowhere are refused', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const stranger = { user_id: (await store.users.create({ username: 'stranger' }, asServer)).id, ...asServer };
  const elsewhere = await store.organizations.create(owner.user_id, { name: 'elsewhere', description: '' }, asServer);
  const made = await store.devices.create(org, member, device(member.user_id));
  const absent = { code: 'not_found', what: 'device' };
  const list = { security_groups: [] };
  expect(await problemOf(store.devices.create(org, owner, device(stranger.user_id)))).toEqual({ code: 'not_a_member' });
  expect(await problemOf(store.devices.create(org, stranger, device(member.user_id)))).toEqual({
    code: 'not_a_member',
  });
  expect(await problemOf(store.devices.update(org, stranger, made.record.id, {}))).toEqual({ code: 'not_a_member' });
  for (const [where, id] of [[elsewhere.id, made.record.id] as const, [org, nowhere] as const]) {
    expect(await problemOf(store.devices.get(where, id))).toEqual(absent);
    expect(await problemOf(store.devices.update(where, owner, id, { hostname: 'x' }))).toEqual(absent);
    expect(await problemOf(store.devices.update(where, owner, id, list))).toEqual(absent);
    expect(await problemOf(store.devices.delete(where, owner, id))).toEqual(absent);
    expect(await problemOf(store.receipts.report(where, id, {}, asServer))).toEqual(absent);
  }
  const noOrg = parseOrganizationId(nowhere);
  const gone = { code: 'not_found', what: 'organization' };
  expect(await problemOf(store.devices.create(noOrg, owner, device(owner.user_id)))).toEqual(gone);
  expect(await problemOf(store.devices.update(noOrg, owner, nowhere, {}))).toEqual(gone);
  expect(await problemOf(store.devices.delete(noOrg, owner, nowhere))).toEqual(gone);
});

test('the device token that comes with a device authenticates as it, and goes with it', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const digest = someDigest();
  const token = { digest, name: 'agent' };
  const made = await store.devices.create(org, member, device(member.user_id, { token }));
  expect(await store.tokens.authenticate(digest)).toMatchObject({
    kind: 'device',
    user_id: member.user_id,
    username: 'mark',
    device_id: made.record.id,
    organization_id: org,
  });
  expect(await store.tokens.list(member.user_id)).toMatchObject([
    { kind: 'device', name: 'agent', device_id: made.record.id },
  ]);
  await store.devices.delete(org, member, made.record.id);
  expect(await store.tokens.authenticate(digest)).toBeUndefined();
});

test('texts that PostgreSQL cannot keep are refused as such, and half a surrogate pair is replaced', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const invalid = { code: 'invalid_text' };
  const make = (given: object) => store.devices.create(org, owner, device(owner.user_id, { fields: given }));
  expect(await problemOf(make({ hostname: 'a\0b' }))).toEqual(invalid);
  expect(await problemOf(make({ public_key: '\0' }))).toEqual(invalid);
  expect(await problemOf(store.groups.create(org, owner, 'organization', group({ group_name: '\0' })))).toEqual(
    invalid,
  );
  expect(await problemOf(store.users.create({ username: 'x\0' }, asServer))).toEqual(invalid);
  expect(await problemOf(store.users.create({ username: randomText(100_000) }, asServer))).toEqual(invalid);
  expect((await make({ hostname: 'half \ud83d' })).record.hostname).toBe('half \ufffd');
  const together = await Promise.all(['a', '\udc00b', 'c'].map((hostname) => make({ hostname })));
  expect(together.map(({ record }) => record.hostname)).toEqual(['a', '\ufffdb', 'c']);
  expect((await make({ public_key: randomText(100_000) })).record.public_key).toHaveLength(100_000);
});

/** Does not compress, so that an index cannot take it. */
const randomText = (length: number): string => {
  let text = '';
  for (let index = 0; text.length < length; index += 1) text += createHash('sha256').update(`${index}`).digest('hex');
  return text.slice(0, length);
};

test('what a device reports of itself is kept beside it, without a revision', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const made = await store.devices.create(org, member, device(member.user_id));
  await store.receipts.report(org, made.record.id, { policy: 2 }, asServer);
  await store.receipts.report(org, made.record.id, { policy: 3, text: 'ü\u0000' }, asServer);
  expect((await store.receipts.since(org)).statuses).toEqual([
    { device_id: made.record.id, reported_at: expect.stringMatching(/Z$/), status: { policy: 3, text: 'ü\u0000' } },
  ]);
  expect((await store.organizations.get(org)).revision).toBe(made.revision);
});

test('lists narrow by revision and page in the order of creation', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const made = [];
  for (let index = 0; index < 7; index += 1) made.push(await store.devices.create(org, member, device(member.user_id)));
  await store.devices.update(org, member, parseDeviceId(made[1]?.id), { hostname: 'moved' });
  const ids = made.map(({ id }) => id);
  expect((await store.devices.list(org)).map(({ id }) => id)).toEqual(ids);
  expect((await store.devices.list(org, { gt_revision: 7 })).map(({ id }) => id)).toEqual([ids[1], ids[6]]);
  expect((await store.devices.list(org, { limit: 3, after: ids[2] })).map(({ id }) => id)).toEqual(ids.slice(3, 6));
  expect(await store.devices.list(org, { after: ids[6] })).toEqual([]);
});
