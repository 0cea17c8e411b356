/** Proves what makes room in the outbox of the audit log: refused traffic, which devices report, never entries of the audit while there is any. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { makeWorld, query } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

test('refused traffic makes room before entries of the audit do', async () => {
  const { store, url } = await makeWorld(postgres);
  const entry = 'INSERT INTO audit_outbox (audit_id) VALUES (gen_random_uuid())';
  const report = 'INSERT INTO audit_outbox (device_id, until, part) VALUES (gen_random_uuid(), now(), 0)';
  for (const row of [entry, report, report, entry, report]) await query(url, row);
  const counts = async (): Promise<readonly object[]> =>
    query(
      url,
      `SELECT count(audit_id)::integer AS entries, count(device_id)::integer AS reports, (SELECT lost FROM audit_log_losses)::integer AS lost FROM audit_outbox`,
    );
  await store.auditExport.forget(5);
  expect(await counts()).toEqual([{ entries: 2, reports: 3, lost: 0 }]);
  await store.auditExport.forget(3);
  expect(await counts()).toEqual([{ entries: 2, reports: 1, lost: 2 }]);
  await store.auditExport.forget(1);
  expect(await counts()).toEqual([{ entries: 1, reports: 0, lost: 4 }]);
});
