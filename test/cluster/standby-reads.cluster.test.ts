/** Proves reads from standbys (`--database-read-url`) on a real primary and a real standby: fresh, of the same history, and from the primary when they cannot be. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { DatabaseNode } from '../lib/database-node.ts';
import { eventually } from '../lib/eventually.ts';
import { newPlace, startTestServer, type Place, type TestPostgres, type TestServer } from '../lib/server.ts';

const none: TestPostgres = {
  freshUrl: () => Promise.reject(new Error('a URL is given')),
  emptyUrl: () => Promise.reject(new Error('a URL is given')),
  stop: () => Promise.resolve(),
};

let primary: DatabaseNode;
let standby: DatabaseNode;
let server: TestServer;
let place: Place;
beforeAll(async () => {
  primary = await DatabaseNode.primary();
  standby = await primary.standby();
  server = await startTestServer(none, { url: primary.url, databaseReadUrl: standby.url });
  place = await newPlace(server);
});
afterAll(async () => {
  await server?.close();
  await standby?.remove();
  await primary?.remove();
});

type Reads = Readonly<Record<'standby' | 'primary', number>>;

async function reads(): Promise<Reads> {
  const { text } = await server.nobody.get('/metrics');
  const of = (from: string): number =>
    Number(
      new RegExp(`^ringfence_database_reads_total\\{from="${from}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? Number.NaN,
    );
  return { standby: of('standby'), primary: of('primary') };
}

/** What a request reads, and from where. */
async function readsOf(ask: () => Promise<void>): Promise<Reads> {
  const before = await reads();
  await ask();
  const after = await reads();
  return { standby: after.standby - before.standby, primary: after.primary - before.primary };
}

const auditShows = async (name: string): Promise<void> => {
  const { id } = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: name });
  const [entry] = await place.owner.api.expect(200, 'GET', `${place.base}/audit?limit=1`);
  expect(entry).toMatchObject({ operation: 'createSecurityGroup', subject_id: id, after: { group_name: name } });
};

const warnings = (): number => server.logged().split('reads go to the primary').length - 1;

/** Reads try the standby again some seconds after it failed. */
const usesStandby = (): Promise<void> =>
  eventually('the standby answers', async () => {
    const { standby: count } = await readsOf(async () => {
      await place.owner.api.expect(200, 'GET', `${place.base}/audit?limit=1`);
    });
    return count > 0;
  });

beforeEach(async () => {
  await standby.query('SELECT pg_wal_replay_resume()').catch(() => {});
  await usesStandby();
});

test('a caller finds its own write in the audit at once, and a standby answers', async () => {
  const went = await readsOf(async () => {
    for (let n = 0; n < 20; n += 1) await auditShows(`own-${n}`);
  });
  expect(went.standby).toBeGreaterThan(0);
  // An entry without a revision counts, too: a write that changes nothing.
  const [group] = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups`);
  const path = `${place.base}/security_groups/${group.id}`;
  await place.owner.api.expect(200, 'PATCH', path, { group_name: group.group_name });
  const [entry] = await place.owner.api.expect(200, 'GET', `${place.base}/audit?limit=1`);
  expect(entry).toMatchObject({ operation: 'updateSecurityGroup', unchanged: true });
});

test('history, lists of the past and observed traffic come from a standby; lists of the present, and what is restored, from the primary', async () => {
  const { owner, base } = place;
  const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'old' });
  const path = `${base}/security_groups/${group.id}`;
  const { revision } = await owner.api.expect(200, 'PATCH', path, { group_name: 'new' });
  const rows: readonly (readonly [string, keyof Reads | undefined])[] = [
    [`${path}/history`, 'standby'],
    [`${base}/security_groups?at_revision=${revision}`, 'standby'],
    [`${base}/devices?at_revision=${revision}`, 'standby'],
    [`${base}/flows`, 'standby'],
    [`${base}/audit`, 'standby'],
    [`${base}/security_groups`, undefined],
    [`${base}/devices`, undefined],
    [path, undefined],
  ];
  for (const [asked, where] of rows) {
    await usesStandby();
    const went = await readsOf(() => owner.api.expect(200, 'GET', asked));
    expect([asked, went]).toEqual([asked, { primary: 0, standby: where === 'standby' ? expect.any(Number) : 0 }]);
    if (where === 'standby') expect(went.standby).toBeGreaterThan(0);
  }
  const restoring = await readsOf(() => owner.api.expect(200, 'POST', `${path}/restore`, { revision: group.revision }));
  expect(restoring).toEqual({ standby: 0, primary: 0 });
});

test('while replay is paused, pages show the last write from the primary, with one line in the log', async () => {
  const before = warnings();
  await standby.query('SELECT pg_wal_replay_pause()');
  const went = await readsOf(async () => {
    for (let n = 0; n < 5; n += 1) await auditShows(`paused-${n}`);
  });
  expect(went.standby).toBe(0);
  expect(went.primary).toBeGreaterThanOrEqual(5);
  expect(warnings() - before).toBeLessThanOrEqual(1);
  expect(server.logged()).toContain('it is behind');
  await standby.query('SELECT pg_wal_replay_resume()');
  await usesStandby();
});

test('a right that has ended on the primary lets nobody read from a standby that does not know it yet', async () => {
  const { owner, member, base } = place;
  const past = `${base}/devices?at_revision=${(await owner.api.expect(200, 'GET', base)).revision}`;
  await member.api.expect(200, 'GET', past);
  await standby.query('SELECT pg_wal_replay_pause()');
  await owner.api.expect(200, 'DELETE', `${base}/members/${member.id}`);
  const went = await readsOf(async () => {
    for (const path of [past, `${base}/audit`, `${base}/flows`])
      expect((await member.api.get(path)).json.code).toBe('not_found');
  });
  expect(went).toEqual({ standby: 0, primary: 0 });
  await standby.query('SELECT pg_wal_replay_resume()');
});

test('a standby that is gone costs nothing but its answers', async () => {
  await standby.kill();
  const went = await readsOf(async () => {
    for (let n = 0; n < 5; n += 1) await auditShows(`gone-${n}`);
  });
  expect(went.standby).toBe(0);
  await standby.start();
  await usesStandby();
});

test('a standby of another history answers nothing, however far it is', async () => {
  // A primary that was replaced goes on by itself, with a standby of its own, which is ahead of the true primary.
  const old = await primary.standby('old');
  await old.promote();
  await old.query('CREATE TABLE padding AS SELECT repeat(md5(n::text), 100) FROM generate_series(1, 5000) AS n');
  const stray = await old.standby('stray');
  const other = await startTestServer(none, { url: primary.url, databaseReadUrl: stray.url });
  try {
    // The true primary begins an era when it is started again. Then the stray standby does not have it.
    await primary.kill('SIGINT');
    await primary.start();
    const api = other.nobody.as(place.owner.token);
    await eventually('the primary takes writes', async () => {
      const answer = await api.post(`${place.base}/security_groups`, { group_name: `true-${Date.now()}` });
      return answer.status === 201;
    });
    const [now] = await primary.query<{ lsn: string }>('SELECT pg_current_wal_flush_lsn() AS lsn');
    const ahead = `SELECT pg_last_wal_replay_lsn() > '${now?.lsn}'::pg_lsn AS ahead`;
    expect(await stray.query(ahead)).toEqual([{ ahead: true }]);
    for (let n = 0; n < 3; n += 1) {
      await api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: `stray-${n}` });
      const [entry] = await api.expect(200, 'GET', `${place.base}/audit?limit=1`);
      expect(entry).toMatchObject({ after: { group_name: `stray-${n}` } });
    }
    expect(other.logged()).toContain('it has another history');
    expect((await other.nobody.get('/metrics')).text).toContain('ringfence_database_reads_total{from="standby"} 0');
  } finally {
    await other.close();
    await stray.remove();
    await old.remove();
  }
});

test('a primary behind --database-read-url is no standby, and is not used as one', async () => {
  const other = await startTestServer(none, { url: primary.url, databaseReadUrl: primary.url });
  try {
    await other.nobody.as(place.owner.token).expect(200, 'GET', `${place.base}/audit?limit=1`);
    expect(other.logged()).toContain('it is not a standby');
    expect((await other.nobody.get('/metrics')).text).toContain('ringfence_database_reads_total{from="standby"} 0');
  } finally {
    await other.close();
  }
});
