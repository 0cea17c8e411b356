/** Proves that writes and pages use indexes in large tables, by the number of rows that PostgreSQL reads for them. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId } from '../../../policy/ids.ts';
import type { FlowQuery } from '../data/flows.ts';
import { type Store, openStore } from '../open.ts';
import { device, makeWorld, query } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const count = 3_000;

/** Rows that were read, in whole-table scans only or in all ways, by table. Backends report when they end, those of the test's own statements too. */
async function readRows(url: string, ways: 'whole' | 'all' = 'whole'): Promise<Readonly<Record<string, number>>> {
  await expect
    .poll(() =>
      query(
        url,
        `SELECT FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      ),
    )
    .toEqual([]);
  const rows = await query<{ relname: string; read: string }>(
    url,
    `SELECT relname, seq_tup_read ${ways === 'all' ? '+ coalesce(idx_tup_fetch, 0)' : ''} AS read FROM pg_stat_user_tables`,
  );
  return Object.fromEntries(rows.map(({ relname, read }) => [relname, Number(read)]));
}

/** It would read rows too, and make statistics whenever it likes. */
const withoutAutovacuum = (url: string, table: string): Promise<unknown> =>
  query(url, `ALTER TABLE ${table} SET (autovacuum_enabled = false)`);

test('a write, a page and a resume read a few rows of a large organization, not all of them', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const audit = {
    operation: 'createDevice',
    user_id: owner.user_id,
    credential: { kind: 'user_token' as const },
    address: '127.0.0.1',
    request_id: 'test',
  };
  const made = await Promise.all(
    Array.from({ length: count }, () => store.devices.create(org, { ...owner, audit }, device(owner.user_id))),
  );
  await store.close();
  const unplanned = await readRows(url, 'all');
  const young = await openStore({ url, phase: 3 });
  for (let round = 0; round < 12; round += 1) {
    expect(await young.audit.list(org, { limit: 10, reader: owner.user_id })).toHaveLength(10);
  }
  await young.close();
  const paged = await readRows(url, 'all');
  for (const table of ['audit', 'history']) {
    expect((paged[table] ?? 0) - (unplanned[table] ?? 0), `${table}, without statistics`).toBeLessThan(count);
  }
  await query(url, 'ANALYZE');
  const before = await readRows(url);
  const later = await openStore({ url, phase: 3 });
  const head = (await later.log.heads([org])).organizations.get(org)?.revision ?? 0;
  // As often as PostgreSQL plans anew for each set of values, and a few times more.
  for (let round = 0; round < 12; round += 1) {
    const id = made[round]?.record.id;
    if (id === undefined) throw new Error('too few devices');
    await later.devices.update(org, owner, id, { hostname: `renamed-${round}` });
    await later.devices.get(org, id);
    await later.devices.list(org, { limit: 10 });
    await later.log.readChanges(org, head, 100);
    await later.log.readState(org, { projection: 'device', after: head, bytes: 1_048_576, deletions: true });
  }
  await later.close();
  const after = await readRows(url);
  for (const table of ['devices', 'device_identities', 'changes', 'history']) {
    expect((after[table] ?? 0) - (before[table] ?? 0), table).toBeLessThan(count);
  }
});

test('pages of a long history read a few states, not all of them, and retention passes each state once', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const { id } = await store.devices.create(org, owner, device(owner.user_id));
  const head = (await store.log.heads([org])).organizations.get(org)?.revision ?? 0;
  await store.close();
  const states = 20_000;
  await withoutAutovacuum(url, 'history');
  await query(
    url,
    `WITH first AS MATERIALIZED (SELECT * FROM history WHERE kind = 'device' AND id = '${id}'), made AS (
       INSERT INTO history (org_id, kind, id, revision, type, at, body)
       SELECT org_id, kind, id, ${head} + n, 'change', clock_timestamp() - (${states} - n) * interval '1 hour', body
       FROM first, generate_series(1, ${states}) AS n)
     UPDATE heads SET revision = revision + ${states} WHERE org_id = '${org}'`,
  );
  const statesRead = async (): Promise<number> => (await readRows(url, 'all'))['history'] ?? 0;
  const hour = 3_600_000;
  let paged = 0;
  for (const statistics of ['without statistics', 'with statistics']) {
    const before = await statesRead();
    const later = await openStore({ url, phase: 3, historyRetentionMs: (states / 2) * hour });
    for (let round = 0; round < 12; round += 1) {
      const at = new Date(Date.now() - (states / 2) * hour + round * hour);
      const revision = await later.history.revisionAt(org, at);
      expect(revision).toBeGreaterThan(head);
      expect(await later.history.devicesAt(org, head + states / 2, { limit: 10 })).toHaveLength(1);
      expect(await later.history.ofDevice(org, parseDeviceId(id), { limit: 10 })).toHaveLength(10);
      const span = { after: revision, through: revision + states / 4 };
      expect(await later.history.between(org, { ...span, limit: 10 })).toHaveLength(10);
    }
    await later.close();
    paged = await statesRead();
    // A round may read a few pages of the table. A plan that reads all states would show at once.
    expect(paged - before, statistics).toBeLessThan(2_000);
    await query(url, 'ANALYZE');
  }
  const last = await openStore({ url, phase: 3, historyRetentionMs: (states / 2) * hour });
  await last.history.forget();
  await last.close();
  const [left] = await query<{ count: string }>(url, 'SELECT count(*) FROM history');
  expect(Number(left?.count)).toBeLessThan(states / 2 + 100);
  // What is old is found, each state is looked at with the one that followed it, and deleted.
  expect((await statesRead()) - paged).toBeLessThan(6 * states);
});

test('a search of traffic that finds nothing reads a bounded number of blocks for a page, and each block once for all pages', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const quiet = (await store.devices.create(org, owner, device(owner.user_id))).record.id;
  const busy = (await store.devices.create(org, owner, device(owner.user_id))).record.id;
  await store.close();
  // A page looks at 17,344.
  const blocks = 18_000;
  const minute = `interval '1 minute'`;
  await withoutAutovacuum(url, 'flows');
  await query(
    url,
    `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
     SELECT '${org}', CASE WHEN n % 100 = 0 THEN '${quiet}'::uuid ELSE '${busy}' END, t - ${minute}, t, n % 100, true, true, 1, repeat('0', 2048)::bit(2048), ''
     FROM generate_series(1, ${blocks}) AS n, LATERAL (SELECT date_trunc('minute', now()) - n / 100 * ${minute} AS t) AS at`,
  );
  const blocksRead = async (): Promise<number> => (await readRows(url, 'all'))['flows'] ?? 0;
  const rowsFor = async (work: (flows: Store['flows']) => Promise<void>): Promise<number> => {
    const before = await blocksRead();
    const later = await openStore({ url, phase: 3 });
    await work(later.flows);
    await later.close();
    return (await blocksRead()) - before;
  };
  const absent = { port: 81, limit: 100 };
  for (const statistics of ['without statistics', 'with statistics']) {
    let pages = 0;
    const ofAll = await rowsFor(async (flows) => {
      for (let after: string | undefined, more = true; more; pages += 1) {
        const page = await flows.page(org, { ...absent, after });
        expect(page.flows).toEqual([]);
        after = page.next;
        more = after !== undefined;
      }
    });
    expect(pages, statistics).toBe(2);
    expect(ofAll, statistics).toBeGreaterThanOrEqual(blocks);
    expect(ofAll, statistics).toBeLessThan(blocks + 200);
    const first = (more: Partial<FlowQuery>) =>
      rowsFor(async (flows) => expect((await flows.page(org, { ...absent, ...more })).flows).toEqual([]));
    const since = new Date(Date.now() - 5 * 60_000).toISOString();
    expect(await first({ since }), statistics).toBeLessThan(2_000);
    const others = Array.from({ length: 300 }, () => parseDeviceId(crypto.randomUUID()));
    expect(await first({ devices: [quiet, ...others] }), statistics).toBeLessThan(blocks - 500);
    expect(await first({ devices: [quiet, ...others.slice(0, 99)] }), statistics).toBeLessThan(2 * (blocks / 100));
    await query(url, 'ANALYZE');
  }
});
