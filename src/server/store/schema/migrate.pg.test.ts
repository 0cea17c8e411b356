/**
 * Proves that any number of servers bring a database of any earlier version, or an empty one, to this version, and
 * leave a later version unchanged.
 */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId } from '../../../policy/ids.ts';
import { asServer } from '../data/actor.ts';
import { StoreError } from '../../problems.ts';
import { migrate } from './migrate.ts';
import { openStore } from '../open.ts';
import { migrations } from './migrations.ts';
import { openTestStore, problemOf, query, stateOf } from '../store.fixture.ts';

/** Its other databases have their tables already. */
let postgres: Omit<TestPostgres, 'freshUrl'>;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const latest = Math.max(...migrations.map(({ version }) => version));

test('versions count up from 1 without a gap', () => {
  expect(migrations.map(({ version }) => version)).toEqual(migrations.map((_, index) => index + 1));
});

test('servers that start together on an empty database migrate it once', async () => {
  const url = await postgres.emptyUrl();
  expect(await Promise.all(Array.from({ length: 6 }, () => migrate(url)))).toEqual(Array(6).fill(latest));
  const rows = await query<{ version: number }>(url, 'SELECT version FROM schema_versions ORDER BY version');
  expect(rows.map(({ version }) => version)).toEqual(migrations.map(({ version }) => version));
});

test('a database of a later version is refused and left as it is', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, [...migrations, { version: latest + 1, title: 'from the future', sql: 'CREATE TABLE future ()' }]);
  const problem = await problemOf(openStore({ url, phase: 3 }));
  expect(problem).toEqual({ code: 'schema_too_new', found: latest + 1, known: latest });
  await expect(migrate(url)).rejects.toThrow(/schema version \d+.*run a newer ringfence/);
});

test('a server that runs finds that a later version has migrated its database, and goes on serving', async () => {
  const url = await postgres.emptyUrl();
  const store = await openTestStore(url);
  await store.checkSchema();
  await migrate(url, [...migrations, { version: latest + 1, title: 'from the future', sql: 'CREATE TABLE future ()' }]);
  expect(await problemOf(store.checkSchema())).toEqual({ code: 'schema_too_new', found: latest + 1, known: latest });
  await store.ping();
});

test('a step that fails leaves the version before it, whole', async () => {
  const url = await postgres.emptyUrl();
  const broken = { version: latest + 1, title: 'broken', sql: 'CREATE TABLE half (); SELECT 1 / 0' };
  await expect(migrate(url, [...migrations, broken])).rejects.toThrow(StoreError);
  expect(await query(url, `SELECT FROM pg_tables WHERE tablename = 'half'`)).toEqual([]);
  expect(await migrate(url)).toBe(latest);
});

test.each([
  [40, 'history'],
  [41, 'flows'],
  [47, 'history'],
] as const)('servers of an earlier version read while step %i builds indexes of %s', async (step, table) => {
  const url = await postgres.emptyUrl();
  await migrate(
    url,
    migrations.filter(({ version }) => version < step),
  );
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(`BEGIN; ${migrations.find(({ version }) => version === step)?.sql ?? ''}`);
  const reading = query(url, `SELECT FROM ${table}`);
  await expect(reading).resolves.toEqual([]);
  await client.query('COMMIT');
});

test('sums of observed traffic are found by an index after every step', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url);
  const found = await query(
    url,
    `SELECT indexname FROM pg_indexes WHERE tablename = 'flows' AND indexdef LIKE '%(org_id, until, id)%'`,
  );
  expect(found).toEqual([{ indexname: 'flows_organization' }]);
});

test('data written under version 1 are all there after the later steps', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, migrations.slice(0, 1));
  await query(url, versionOne);
  const store = await openTestStore(url);
  const [org] = await store.organizations.list({ member: (await store.users.byName('olga'))?.id ?? fail() });
  expect(org).toMatchObject({ name: 'acme', revision: 3 });
  const devices = await store.devices.list(org?.id ?? fail());
  expect(devices.map(({ record }) => record)).toMatchObject([{ hostname: 'host', revision: 3 }]);
  expect(
    (await stateOf(store, org?.id ?? fail(), { kinds: ['device', 'security-groups'], after: 0, deletions: true }))
      .length,
  ).toBe(3);
  expect((await store.log.heads([])).ended).toMatchObject([{ token_id: '00000000-0000-7000-8000-00000000000f' }]);
});

test('users, tokens and audit of version 4 are all there after sessions came, and sessions can begin', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, migrations.slice(0, 4));
  await query(url, versionOne);
  await query(url, versionFour);
  const store = await openTestStore(url);
  const olga = (await store.users.byName('olga'))?.id ?? fail();
  expect(await store.tokens.authenticate(Buffer.from('0102', 'hex'))).toMatchObject({ user_id: olga, scope: 'full' });
  expect(await store.audit.list(undefined)).toMatchObject([
    { operation: 'signIn', credential: { kind: 'access_token' } },
  ]);
  const digest = Buffer.from('0304', 'hex');
  const id = await store.sessions.begin(olga, {
    digest,
    provider: { issuer: 'https://idp.test', client_id: 'web' },
    expires_at: new Date('2100-01-01Z'),
  });
  expect(await store.sessions.authenticate(digest, 60_000)).toMatchObject({ id, user_id: olga, username: 'olga' });
  await store.sessions.end(id);
  expect(await store.sessions.authenticate(digest, 60_000)).toBeUndefined();
  expect((await store.log.heads([])).ended).toContainEqual(expect.objectContaining({ token_id: id }));
});

test('the owner of an organization of version 6 is its owner by role, and nobody else is', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, migrations.slice(0, 6));
  await query(url, versionOne);
  await query(
    url,
    `INSERT INTO users VALUES ('00000000-0000-7000-8000-000000000021', 'mark', false, NULL, NULL, '2026-01-01Z');
     INSERT INTO members VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000021', '2025-01-01Z')`,
  );
  const store = await openTestStore(url);
  const [org] = await store.organizations.list({ member: (await store.users.byName('olga'))?.id ?? fail() });
  const members = await store.members.list(org?.id ?? fail());
  expect(members.map(({ username, role }) => `${username} ${role}`)).toEqual(['olga owner', 'mark member']);
});

test('users of version 20 whose names look alike keep them, and nobody else gets such a name', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, migrations.slice(0, 20));
  await query(
    url,
    `INSERT INTO users (id, username, is_admin, created_at) VALUES
       ('00000000-0000-7000-8000-000000000031', 'Admin', false, '2026-01-02Z'),
       ('00000000-0000-7000-8000-000000000032', 'admin', true, '2026-01-01Z'),
       ('00000000-0000-7000-8000-000000000033', 'zo\u00eb', false, '2026-01-01Z')`,
  );
  const store = await openTestStore(url);
  expect((await store.users.list()).map(({ username }) => username)).toEqual(['Admin', 'admin', 'zo\u00eb']);
  for (const username of ['ADMIN', 'admin', 'Admin', 'zoe\u0308', 'Zo\u00eb']) {
    expect(await problemOf(store.users.create({ username }, asServer))).toEqual({ code: 'username_taken' });
  }
  expect(await store.users.create({ username: 'admin2' }, asServer)).toMatchObject({ username: 'admin2' });
});

test('what version 7 kept is counted: devices and groups of an organization, ranges of a group in each direction', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, migrations.slice(0, 7));
  await query(url, versionOne);
  await query(
    url,
    `UPDATE security_groups SET
       inbound_rules = '[{"ip_protocol":"tcp","from_port":1,"to_port":1,"ip_ranges":["10.0.0.1","10.0.0.2"]},{"ip_protocol":"ipv4","from_port":0,"to_port":0}]',
       outbound_rules = '[{"ip_protocol":"tcp","from_port":1,"to_port":1,"ip_ranges":["10.0.0.3"]}]'`,
  );
  await openTestStore(url, { quotas: { devices: 1 } });
  expect(await query(url, 'SELECT devices, groups FROM heads')).toEqual([{ devices: 1, groups: 1 }]);
  expect(await query(url, 'SELECT inbound_ranges, outbound_ranges FROM security_groups')).toEqual([
    { inbound_ranges: 2, outbound_ranges: 1 },
  ]);
});

test('devices of version 8, and deletions that are kept, are there by identity', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, migrations.slice(0, 8));
  await query(url, versionOne);
  await query(
    url,
    `UPDATE devices SET hostname = 'a "b"', tunnel_ip = '10.0.0.1', security_groups = '{00000000-0000-7000-8000-000000000003}';
     INSERT INTO changes (org_id, revision, kind, type, id, body, left_at)
     VALUES ('00000000-0000-7000-8000-000000000002', 4, 'device', 'delete', '00000000-0000-7000-8000-000000000009',
       '{"id":"00000000-0000-7000-8000-000000000009","hostname":"gone \\u00e4","tunnel_ip":"","relay":false', 0);
     UPDATE heads SET revision = 4`,
  );
  const store = await openTestStore(url);
  const [org] = await store.organizations.list({ member: (await store.users.byName('olga'))?.id ?? fail() });
  const state = await stateOf(store, org?.id ?? fail(), { kinds: ['device-identity'], after: 0, deletions: true });
  expect(state.map(({ type, json }) => [type, JSON.parse(json)])).toEqual([
    [
      'change',
      {
        id: '00000000-0000-7000-8000-000000000004',
        hostname: 'a "b"',
        tunnel_ip: '10.0.0.1',
        security_groups: ['00000000-0000-7000-8000-000000000003'],
        revision: 3,
      },
    ],
    ['delete', { id: '00000000-0000-7000-8000-000000000009', hostname: 'gone ä', tunnel_ip: '', revision: 4 }],
  ]);
});

test('what stood before there was a history is its first state, by nobody known; what was before that is not to be had', async () => {
  const url = await postgres.emptyUrl();
  await migrate(url, migrations.slice(0, 8));
  await query(url, versionOne);
  const store = await openTestStore(url);
  const reader = (await store.users.byName('olga'))?.id ?? fail();
  const org = (await store.organizations.list({ member: reader }))[0]?.id ?? fail();
  const id = parseGroupId('00000000-0000-7000-8000-000000000003');
  const states = await store.history.ofGroup(org, id, { reader });
  expect(states).toEqual([
    {
      revision: 1,
      at: '2026-01-01T00:00:00.000Z',
      type: 'change',
      record: { id, revision: 1 },
      json: expect.any(String),
    },
  ]);
  const device = parseDeviceId('00000000-0000-7000-8000-000000000004');
  expect(await store.history.ofDevice(org, device)).toMatchObject([{ revision: 3, record: { hostname: 'host' } }]);
  expect((await store.history.groupsAt(org, 3, { reader })).map((group) => group.id)).toEqual([id]);
  expect(await problemOf(store.history.groupsAt(org, 2, { reader }))).toEqual({ code: 'revision_gone', oldest: 3 });
});

test('lists and rules of version 56 count as before: those on trial too, and no column holds a record a second time', async () => {
  const url = await postgres.emptyUrl();
  const steps = migrations.filter(({ version }) => version < 57);
  await migrate(url, steps.slice(0, 6));
  await query(url, versionOne);
  await migrate(url, steps);
  const [web, db, ops] = ['a1', 'a2', 'a3'].map((end) => `00000000-0000-7000-8000-0000000000${end}`);
  const named = (
    id: string | undefined,
    name: string,
    revision: number,
  ) => `('${id}', '00000000-0000-7000-8000-000000000002', false, false, 0, '${name}', '',
    '[{"ip_protocol":"ipv4"}]', '[]', '[]', '{"before":{"inbound_rules":[{},{}],"applies_to":[{"labels":["db"]}]}}', ${revision}, '2026-01-01Z', '2026-01-01Z',
    '{"id":"${id}","group_name":"${name}","inbound_rules":[{"ip_protocol":"ipv4"}]')`;
  await query(
    url,
    `INSERT INTO security_groups (id, org_id, is_default, is_applied, left_at, group_name, group_description, inbound_rules, outbound_rules, applies_to, trial,
       revision, created_at, updated_at, body)
     VALUES ${[named(web, 'web', 4), named(db, 'db', 5), named(ops, 'ops', 6)].join(', ')};
     UPDATE devices SET security_groups = '{${web}}', trial = '{"before":{"security_groups":["${db}","${web}"]}}', revision = 7, hostname = 'w1',
       body = '{"id":"00000000-0000-7000-8000-000000000004","hostname":"w1","security_groups":["${web}"]';
     UPDATE heads SET revision = 7, devices = 1, groups = 4`,
  );
  const summed = 'SELECT owner_id, rules, bytes, selectors FROM group_sums ORDER BY owner_id';
  const before = await query(url, summed);
  const store = await openTestStore(url);
  expect(await query(url, summed)).toEqual(before);
  expect(await query(url, 'SELECT rules, selectors FROM security_groups WHERE NOT is_default')).toEqual(
    Array.from({ length: 3 }, () => ({ rules: 3, selectors: 1 })),
  );
  const olga = (await store.users.byName('olga'))?.id ?? fail();
  const [org] = await store.organizations.list({ member: olga });
  const removed = store.groups.delete(
    org?.id ?? fail(),
    { ...asServer, user_id: olga },
    'organization',
    parseGroupId(web ?? fail()),
  );
  expect(await problemOf(removed)).toMatchObject({ code: 'group_in_use' });
  expect(await query(url, 'SELECT listed FROM devices')).toEqual([{ listed: expect.arrayContaining([web, db]) }]);
  const columns = await query<{ name: string }>(
    url,
    `SELECT column_name AS name FROM information_schema.columns WHERE table_name = 'devices' ORDER BY column_name`,
  );
  expect(columns.map(({ name }) => name).join(' ')).toBe(
    'body born id isolated key_digest listed org_id revision user_id',
  );
});

function fail(): never {
  throw new Error('missing');
}

/** A small organization as version 1 kept it: a default group, a deleted group, a device, an ended token. */
const versionOne = `
  INSERT INTO users VALUES ('00000000-0000-7000-8000-000000000001', 'olga', true, NULL, NULL, '2026-01-01Z');
  INSERT INTO organizations VALUES
    ('00000000-0000-7000-8000-000000000002', 'acme', '', '00000000-0000-7000-8000-000000000001', '2026-01-01Z', '2026-01-01Z');
  INSERT INTO heads VALUES ('00000000-0000-7000-8000-000000000002', 3, 3, 0);
  INSERT INTO members VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', '2026-01-01Z');
  INSERT INTO security_groups (id, org_id, is_default, is_applied, left_at, group_name, group_description, inbound_rules, outbound_rules,
    revision, created_at, updated_at, body)
  VALUES ('00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000002', true, false, 0, 'default', '', '[]', '[]',
    1, '2026-01-01Z', '2026-01-01Z', '{"id":"00000000-0000-7000-8000-000000000003"');
  INSERT INTO devices (id, org_id, user_id, public_key, key_digest, local_ip, tunnel_ip, relay, discovery, reflexive_ip4,
    endpoint_local_address_ip4, symmetric_nat, hostname, security_groups, revision, created_at, updated_at, body)
  VALUES ('00000000-0000-7000-8000-000000000004', '00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 'key', '\\x01',
    '', '', false, false, '', '', false, 'host', '{}', 3, '2026-01-01Z', '2026-01-01Z', '{"hostname":"host"');
  INSERT INTO changes (org_id, revision, kind, type, id, body, left_at)
  VALUES ('00000000-0000-7000-8000-000000000002', 2, 'security-groups', 'delete', '00000000-0000-7000-8000-000000000005', '{"id":"5"', 0);
  INSERT INTO revocations (token_id) VALUES ('00000000-0000-7000-8000-00000000000f');
`;

/** What version 4 knew besides: a token, a removed user, and an entry of the audit. */
const versionFour = `
  INSERT INTO users VALUES ('00000000-0000-7000-8000-000000000011', 'gone', false, 'https://idp', 'gone', '2026-01-01Z', '2026-01-02Z');
  INSERT INTO tokens (id, digest, user_id, name, scope, created_at)
  VALUES ('00000000-0000-7000-8000-000000000012', '\\x0102', '00000000-0000-7000-8000-000000000001', 'laptop', 'full', '2026-01-01Z');
  INSERT INTO audit (id, at, operation, user_id, credential, address, request_id)
  VALUES ('00000000-0000-7000-8000-000000000013', '2026-01-01Z', 'signIn', '00000000-0000-7000-8000-000000000011', 'access_token', '::1', 'r');
`;
