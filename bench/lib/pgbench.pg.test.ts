/** Proves that the floors under the store are what the store does: its statements, in this schema, with all that they answer. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { brief, device, group, logOf, makeWorld, query } from '../../src/server/store/store.fixture.ts';
import { startPostgres, type TestPostgres } from '../../test/lib/postgres.ts';
import { readFunctions, updateCall, updateFunction } from './pgbench.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A call as pgbench would send it. */
const filled = (call: string, variables: Readonly<Record<string, string>>): string =>
  call.replace(/^\\set .*\n/gm, '').replace(/(?<!:):(\w+)/g, (_, name: string) => variables[name] ?? 'missing');

test('the change of a device is logged and answered as the store does it', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const { record } = await store.devices.create(org, owner, device(owner.user_id));
  await query(url, updateFunction());
  const before = (await logOf(store, org)).length;
  const variables = { org: `'${org}'`, device: `'${record.id}'`, me: `'${owner.user_id}'`, n: '7' };
  const [answer] = await query<Record<string, unknown>>(url, filled(updateCall, variables));
  const changes = (await logOf(store, org)).slice(before);
  expect(brief(changes)).toHaveLength(1);
  const [change] = changes;
  expect(answer).toMatchObject({
    refusal: null,
    kind: 'device',
    type: 'change',
    id: record.id,
    revision: String(change?.revision),
  });
  expect(answer?.['body']).toContain('"host 7"');
  expect(await query(url, "SELECT operation FROM audit WHERE operation = 'updateDevice'")).toHaveLength(1);
});

test('a device and a group are read as the store reads them', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const { record } = await store.devices.create(org, owner, device(owner.user_id));
  const { record: web } = await store.groups.create(org, owner, 'organization', group());
  for (const definition of readFunctions) await query(url, definition);
  const [member] = await query(url, `SELECT * FROM bench_member('${org}', '${owner.user_id}')`);
  expect(member).toEqual({ owner: owner.user_id, is_member: true });
  const [read] = await query<{ body: string }>(url, `SELECT * FROM bench_device('${org}', '${record.id}')`);
  expect(read?.body).toContain(record.id);
  const [found] = await query<{ body: string }>(
    url,
    `SELECT * FROM bench_group('${org}', '${owner.user_id}', NULL, '${web.id}')`,
  );
  expect(found?.body).toContain(web.id);
});
