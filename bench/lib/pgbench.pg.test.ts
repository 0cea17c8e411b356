/** Proves that the floors under the store are what the store does: its statements, in this schema, with all that they answer. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { device, group, logOf, makeWorld, query } from '../../src/server/store/store.fixture.ts';
import { startPostgres, type TestPostgres } from '../../test/lib/postgres.ts';
import { readFunctions, updateCall, updateFunction, updateGroupFunction } from './pgbench.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A call as pgbench would send it. */
const filled = (call: string, variables: Readonly<Record<string, string>>): string =>
  call.replace(/^\\set .*\n/gm, '').replace(/(?<!:):(\w+)/g, (_, name: string) => variables[name] ?? 'missing');

test('the change of a device, and of a group, is logged and kept as the store does it', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const { record } = await store.devices.create(org, owner, device(owner.user_id));
  const { record: web } = await store.groups.create(org, owner, 'organization', group());
  await query(url, updateFunction());
  await query(url, updateGroupFunction());
  const before = (await logOf(store, org)).length;
  const variables = { org: `'${org}'`, device: `'${record.id}'`, me: `'${owner.user_id}'`, n: '7' };
  await query(url, filled(updateCall, variables));
  await query(url, `SELECT bench_update_group('${org}', '${web.id}', '${owner.user_id}', 8)`);
  const changes = (await logOf(store, org)).slice(before);
  const devices = await store.devices.get(org, record.id);
  const groups = await store.groups.get(org, web.id, { reader: owner.user_id });
  expect(changes.map(({ json }) => json)).toEqual([devices.json, groups.json]);
  expect([devices.record.hostname, groups.record.group_name]).toEqual(['host 7', 'host 8']);
  expect(await store.devices.update(org, owner, record.id, { hostname: 'on' })).toMatchObject({
    revision: groups.revision + 1,
  });
  const told = await query(url, "SELECT operation FROM audit WHERE request_id = 'request' ORDER BY 1");
  expect(told).toEqual([{ operation: 'updateDevice' }, { operation: 'updateSecurityGroup' }]);
});

test('a device and a group are read as the store reads them', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const { record } = await store.devices.create(org, owner, device(owner.user_id));
  const { record: web } = await store.groups.create(org, owner, 'organization', group());
  for (const definition of readFunctions) await query(url, definition);
  const [member] = await query(url, `SELECT * FROM bench_member('${org}', '${owner.user_id}')`);
  expect(member).toEqual({ owner: owner.user_id, is_member: true });
  const [read] = await query<{ body: string }>(
    url,
    `SELECT * FROM bench_device('${org}', ARRAY['${record.id}'::uuid])`,
  );
  expect(read?.body).toContain(record.id);
  const [found] = await query<{ body: string }>(
    url,
    `SELECT * FROM bench_group('${org}', '${owner.user_id}', NULL, ARRAY['${web.id}'::uuid], false)`,
  );
  expect(found?.body).toContain(web.id);
});
