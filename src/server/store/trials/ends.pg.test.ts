/** Proves that trials and isolations end by time, once, whichever servers act and whichever dies. */
import { theServer } from '../../../organization/decide/caller.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId } from '../../../policy/ids.ts';
import { endsOfTime } from '../../ends.ts';
import type { Store } from '../open.ts';
import { device, group, makeWorld, openTestStore, query } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

async function timedWorld() {
  let now = Date.now();
  const clock = (): number => now;
  const world = await makeWorld(postgres, { clock });
  const { store, org, owner } = world;
  const isolate = async (hostname: string, ms: number) => {
    const made = await store.devices.create(org, owner, device(owner.user_id, { fields: { hostname } }));
    const times = { since: new Date(now).toISOString(), until: new Date(now + ms).toISOString() };
    const isolated = { ...times, by: owner.user_id, reason: 'r' };
    await store.devices.update(org, owner, parseDeviceId(made.id), { isolated });
    return parseDeviceId(made.id);
  };
  const look = ({ ends }: Store): Promise<number> =>
    endsOfTime({ ends, clock, onWarning: () => {} }).run(new AbortController().signal);
  return { ...world, clock, isolate, look, pass: (ms: number) => void (now += ms) };
}

test('isolations whose time is over are lifted, but for a device with fields of a later version', async () => {
  const { store, url, org, isolate, look, pass } = await timedWorld();
  const devices = [await isolate('first', 60_000), await isolate('later', 60_000), await isolate('last', 60_000)];
  // As a server of a later version does, which moves the version of the head with every write.
  await query(
    url,
    `UPDATE devices SET body = replace(body, '"hostname":"later"', '"colour":"red","hostname":"later"') WHERE body LIKE '%"later"%';
     UPDATE heads SET version = version + 1`,
  );
  pass(59_000);
  expect(await look(store)).toBe(1_000);
  pass(1_000);
  await look(store);
  const left = await Promise.all(
    devices.map(async (id) => (await store.devices.get(org, id)).record.isolated !== undefined),
  );
  expect(left).toEqual([false, true, false]);
  const authors = await query(
    url,
    `SELECT DISTINCT ON (id) user_id FROM history WHERE id = ANY ('{${devices[0]},${devices[2]}}') ORDER BY id, revision DESC`,
  );
  expect(authors).toEqual([{ user_id: theServer }, { user_id: theServer }]);
});

test('of three servers that look at once, each trial and each isolation is ended by one, in the order of their ends', async () => {
  const { store, url, org, owner, clock, isolate, look, pass } = await timedWorld();
  const others = [await openTestStore(url, { clock }), await openTestStore(url, { clock })];
  const made = [];
  const devices = [];
  for (let n = 0; n < 5; n += 1) {
    made.push(await store.groups.create(org, owner, 'organization', group(), { trial: { confirm_within: 60 } }));
    devices.push(await isolate(`d${n}`, 60_000 + n));
  }
  pass(30_000);
  expect(await store.ends.next(29_999)).toEqual([]);
  const known = await store.ends.next(30_002);
  expect(known.map(({ kind }) => kind)).toEqual([...made.map(() => 'trial'), 'isolation', 'isolation', 'isolation']);
  pass(30_100);
  const before = (await store.organizations.get(org)).revision;
  await Promise.all([store, ...others].map((each) => look(each)));
  expect(
    await store.groups.find(
      org,
      made.map(({ id }) => parseGroupId(id)),
    ),
  ).toEqual([]);
  const found = await store.devices.find(org, devices);
  expect(found.filter(({ record }) => record.isolated !== undefined)).toEqual([]);
  const ends = await query<{ operation: string; count: number }>(
    url,
    `SELECT operation, count(*)::integer AS count FROM audit WHERE operation IN ('expireTrial', 'liftIsolation') GROUP BY 1 ORDER BY 1`,
  );
  expect(ends).toEqual([
    { operation: 'expireTrial', count: 5 },
    { operation: 'liftIsolation', count: 5 },
  ]);
  // Nothing more was written by those that came second.
  expect((await store.organizations.get(org)).revision).toBe(before + 10);
  expect(await store.ends.next(0)).toEqual([]);
});

test('what a server that dies has read is ended by another one', async () => {
  const { store, url, clock, isolate, look, pass } = await timedWorld();
  await isolate('d', 60_000);
  pass(60_000);
  expect(await store.ends.next(0)).toHaveLength(1);
  await store.close();
  const other = await openTestStore(url, { clock });
  await look(other);
  expect(await other.ends.next(0)).toEqual([]);
});
