/**
 * Proves that the processes of one server learn of each other's commits directly and once, and through the database
 * when the direct way fails.
 */
import { asServer } from '../data/actor.ts';
import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseOrganizationId, parseTokenId } from '../../../policy/ids.ts';
import type { Hint } from '../data/change-log.ts';
import type { Store } from '../open.ts';
import { Hints } from '../postgres/hints.ts';
import { Primary } from '../postgres/primary.ts';
import { MemoryWorkerPeers } from '../postgres/worker-peers.fixture.ts';
import { device, group, makeWorld, openTestStore, query, someDigest } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A bound, no measure. */
const soon = { timeout: 60_000 };

/** Two processes of one server, and another server, as one of an older version would be; what each of them hears from now on. */
async function threeStores() {
  const [way, back] = MemoryWorkerPeers.pair();
  const world = await makeWorld(postgres, { workerPeers: way });
  const { store, owner, url } = world;
  const peer = await openTestStore(url, { workerPeers: back });
  const elsewhere = await openTestStore(url);
  const stores = [store, peer, elsewhere] as const;
  const [here, heard, abroad]: [Hint[], Hint[], Hint[]] = [[], [], []];
  const endedIn = (hints: readonly Hint[]) => hints.flatMap(({ credentials }) => credentials);
  /** Ends a token through a store, and waits until the others have received that hint and all earlier ones. */
  const mark = async (through: Store, ...others: readonly Hint[][]): Promise<void> => {
    const { id } = await through.tokens.issue(
      owner.user_id,
      { digest: someDigest(), name: '', scope: 'full' },
      asServer,
    );
    await through.tokens.revoke(id, asServer);
    for (const hints of others) await vi.waitFor(() => expect(endedIn(hints)).toContain(id), soon);
  };
  /** Every NOTIFY has arrived everywhere: connections hear all of them in one order. */
  const settle = async (): Promise<void> => {
    await mark(store, abroad);
    await mark(elsewhere, heard, here);
  };
  stores.forEach((one, index) => one.log.onHint((hint) => [here, heard, abroad][index]?.push(hint)));
  await settle();
  for (const hints of [here, heard, abroad]) hints.length = 0;
  return { ...world, way, peer, here, heard, abroad, settle };
}

test('another process hears once what this one tells itself, entries as it would read them, and other servers hear where to look', async () => {
  const { store, peer, org, owner, member, here, heard, abroad, settle } = await threeStores();
  const after = (await store.log.heads([org])).organizations.get(org)?.revision ?? 0;
  const made = await store.devices.create(org, owner, device(owner.user_id));
  const names = ['ä"\\', '\u2028', 'c'];
  await Promise.all(
    names.map((hostname) => store.devices.create(org, owner, device(owner.user_id, { fields: { hostname } }))),
  );
  await store.groups.create(org, member, member.user_id, group());
  await store.devices.delete(org, owner, made.record.id);
  await settle();
  expect(heard).toStrictEqual(here);
  const logged = heard.flatMap((hint) => hint.logged).flatMap(({ entries }) => entries);
  expect(logged.map(({ revision }) => revision)).toEqual(expect.arrayContaining([1, 2, 3, 4].map((n) => after + n)));
  const read = (await peer.log.readChanges(org, after, 100)) ?? [];
  expect(logged).toStrictEqual(read.filter(({ revision }) => logged.some((one) => one.revision === revision)));
  expect(abroad.flatMap(({ organizations }) => organizations)).toContain(org);
  expect(abroad.flatMap((hint) => hint.logged)).toEqual([]);
});

test('a right that ended is heard of before what is written after it, in the order of this process', async () => {
  const { store, org, owner, member, heard } = await threeStores();
  const token = await store.tokens.issue(member.user_id, { digest: someDigest(), name: '', scope: 'full' }, asServer);
  await store.tokens.revoke(token.id, asServer);
  await store.devices.create(org, owner, device(owner.user_id));
  await vi.waitFor(() => expect(heard.some((hint) => hint.logged.length > 0)).toBe(true), soon);
  const ended = heard.findIndex((hint) => hint.credentials.includes(token.id));
  expect(ended).toBeGreaterThanOrEqual(0);
  expect(ended).toBeLessThan(heard.findIndex((hint) => hint.logged.length > 0));
});

test('what is lost on the direct way is heard of by NOTIFY, and what NOTIFY loses by the direct way', async () => {
  const { store, url, org, owner, way, heard } = await threeStores();
  way.isCut = true;
  await store.devices.create(org, owner, device(owner.user_id));
  await vi.waitFor(() => expect(heard.flatMap(({ organizations }) => organizations)).toContain(org), soon);
  expect(heard.flatMap((hint) => hint.logged)).toEqual([]);
  way.isCut = false;
  await query(
    url,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND query ~* '^(LISTEN|SELECT pg_notify)' AND pid <> pg_backend_pid()`,
  );
  await store.devices.create(org, owner, device(owner.user_id));
  await vi.waitFor(() => expect(heard.flatMap((hint) => hint.logged)).toHaveLength(1), soon);
});

test('a NOTIFY that holds both what was heard and what was lost is not passed over', async () => {
  const [way, back] = MemoryWorkerPeers.pair();
  const url = await postgres.freshUrl();
  const org = parseOrganizationId('00000000-0000-4000-8000-000000000001');
  const hintsOver = (over: MemoryWorkerPeers, name: string): Hints => {
    const hints = new Hints({ primary: new Primary(url), onWarning: () => {}, workerPeers: { way: over, name } });
    onTestFinished(() => hints.close());
    return hints;
  };
  const heard: Hint[] = [];
  const listening = hintsOver(back, org);
  listening.on((hint) => heard.push(hint));
  await listening.start();
  // It has no connection yet: its hints gather for one NOTIFY.
  const late = hintsOver(way, '00000000-0000-4000-8000-000000000002');
  const credential = parseTokenId(org);
  way.isCut = true;
  late.tell({ credentials: [credential] });
  await setImmediate();
  way.isCut = false;
  late.tell({ organizations: [org] });
  await setImmediate();
  expect(heard).toMatchObject([{ organizations: [org], credentials: [] }]);
  await late.start();
  await vi.waitFor(() => expect(heard.flatMap(({ credentials }) => credentials)).toEqual([credential]), soon);
});
