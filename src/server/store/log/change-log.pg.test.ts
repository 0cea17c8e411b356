/** Proves the promises of the change log: exact while it reaches back, resumable beyond that, and gaps exactly where it says. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId, parseOrganizationId } from '../../../policy/ids.ts';
import { brief, device, group, logOf, makeWorld, openTestStore, query, stateOf, type World } from '../store.fixture.ts';
import type { WatchKind } from '../../../api/kinds.ts';
import type { Store } from '../open.ts';
import { Random } from '../../../../test/lib/random.ts';
import { isInGap, type Entry, type Hint } from '../data/change-log.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const both: readonly WatchKind[] = ['device', 'security-groups'];

/** Three devices and two groups with some history; the head is 9. */
async function history({ store, org, owner }: World): Promise<void> {
  const made = [];
  for (let index = 0; index < 3; index += 1) made.push(await store.devices.create(org, owner, device(owner.user_id)));
  const extra = await store.groups.create(org, owner, 'organization', group());
  await store.devices.update(org, owner, parseDeviceId(made[0]?.id), { hostname: 'moved' });
  await store.devices.delete(org, owner, parseDeviceId(made[1]?.id));
  await store.groups.delete(org, owner, 'organization', parseGroupId(extra.id));
  await store.organizations.update(org, owner, { name: 'renamed' });
}

test('the log holds every revision once, from any point on', async () => {
  const world = await makeWorld(postgres);
  await history(world);
  const { store, org } = world;
  const all = [
    '1 security-groups change',
    '2 device change',
    '3 device change',
    '4 device change',
    '5 security-groups change',
    '6 device change',
    '7 device delete',
    '8 security-groups delete',
    '9 organization change',
  ];
  expect(brief(await logOf(store, org))).toEqual(all);
  expect(brief((await store.log.readChanges(org, 4, 2)) ?? [])).toEqual(all.slice(4, 6));
  expect(await store.log.readChanges(org, 9, 10)).toEqual([]);
  expect((await store.log.heads([org])).organizations.get(org)).toMatchObject({ revision: 9 });
  const other = parseOrganizationId('00000000-0000-4000-8000-000000000000');
  expect((await store.log.heads([org, other])).organizations.size).toBe(1);
});

test('the state after a revision is the newest of each resource and the deletions, ascending, in pages', async () => {
  const world = await makeWorld(postgres);
  await history(world);
  const { store, org } = world;
  // Each page has one revision, which goes beyond its bytes.
  const read = async (wanted: { kinds: readonly WatchKind[]; after: number; deletions: boolean }) =>
    brief(await stateOf(store, org, { ...wanted, bytes: 1 }));
  expect(await read({ kinds: both, after: 0, deletions: false })).toEqual([
    '1 security-groups change',
    '4 device change',
    '6 device change',
  ]);
  expect(await read({ kinds: ['device'], after: 0, deletions: true })).toEqual([
    '4 device change',
    '6 device change',
    '7 device delete',
  ]);
  expect(await read({ kinds: ['security-groups'], after: 5, deletions: true })).toEqual(['8 security-groups delete']);
  expect(await read({ kinds: both, after: 3, deletions: true })).toEqual([
    '4 device change',
    '6 device change',
    '7 device delete',
    '8 security-groups delete',
  ]);
  const first = await store.log.readState(org, { projection: 'device', after: 0, bytes: 1, deletions: true });
  expect([brief(first.entries), first.through]).toEqual([['4 device change'], 4]);
});

test('compacting drops the exact log past its retention: a reader is told to resync, and deletions stay', async () => {
  const world = await makeWorld(postgres, { logRetentionMs: 0 });
  await history(world);
  const { store, org, owner } = world;
  await store.log.compact();
  expect(await store.log.readChanges(org, 0, 100)).toBeUndefined();
  expect(await store.log.readChanges(org, 5, 100)).toBeUndefined();
  expect(brief(await stateOf(store, org, { kinds: both, after: 5, deletions: true }))).toEqual([
    '6 device change',
    '7 device delete',
    '8 security-groups delete',
  ]);
  const { revision } = await store.devices.create(org, owner, device(owner.user_id));
  expect(brief((await store.log.readChanges(org, revision - 1, 100)) ?? [])).toEqual(['10 device change']);
  expect((await store.log.heads([org])).organizations.get(org)).toMatchObject({ revision: 10 });
});

test('deletions past their retention go, unless a record has a revision from which they are needed', async () => {
  const world = await makeWorld(postgres, { deletionRetentionMs: 0 });
  await history(world);
  const { store, org } = world;
  await store.log.compact();
  // The group lived from 5 to 8, and a device has revision 6; the device lived from 3 to 7.
  expect((await store.log.resumption(org)).gaps).toEqual([]);
  expect(brief(await stateOf(store, org, { kinds: both, after: 0, deletions: true }))).toEqual([
    '1 security-groups change',
    '4 device change',
    '6 device change',
    '7 device delete',
    '8 security-groups delete',
  ]);
});

test('what is within its retention survives compacting, and several servers may compact at once', async () => {
  const world = await makeWorld(postgres);
  await history(world);
  const others = await Promise.all([1, 2].map(() => openTestStore(world.url)));
  await Promise.all([world.store, ...others].flatMap((store) => [store.log.compact(), store.log.compact()]));
  expect(await logOf(world.store, world.org)).toHaveLength(9);
});

test('a server that finds another database first discards nothing that another server wrote in an era of which it did not hear', async () => {
  const { store: here, url, org, owner } = await makeWorld(postgres);
  const there = await openTestStore(url);
  const newest = 'WHERE serial = (SELECT max(serial) FROM eras)';
  // PostgreSQL started again, and only one of the servers had something to write since.
  await query(url, `UPDATE eras SET started_at = 'epoch' ${newest}`);
  const { revision } = await here.devices.create(org, owner, device(owner.user_id));
  // A standby that has everything took over, and the other server is the first to notice.
  await query(url, `UPDATE eras SET started_at = 'epoch', place = 'another timeline' ${newest}`);
  const after = await there.devices.create(org, owner, device(owner.user_id));
  const { gaps } = await there.log.resumption(org);
  expect(gaps).toEqual([{ kind: undefined, first: revision + 1, last: after.revision - 2 }]);
});

test('a part of the history is lost: a server that has followed it discards only that part, though another server began the era', async () => {
  const { store: here, url, org, owner } = await makeWorld(postgres);
  const there = await openTestStore(url);
  const newest = 'WHERE serial = (SELECT max(serial) FROM eras)';
  // PostgreSQL started again. One of the servers writes, and the other one only reads.
  await query(url, `UPDATE eras SET started_at = 'epoch' ${newest}`);
  const kept = await here.devices.create(org, owner, device(owner.user_id));
  const lost = await here.devices.create(org, owner, device(owner.user_id));
  expect((await there.log.heads([org])).organizations.get(org)?.revision).toBe(lost.revision);
  // A snapshot of that era is put back.
  await query(url, `UPDATE heads SET revision = ${kept.revision} WHERE org_id = '${org}'`);
  await query(url, `UPDATE eras SET started_at = 'epoch' ${newest}`);
  const after = await there.devices.create(org, owner, device(owner.user_id));
  const { gaps } = await there.log.resumption(org);
  // A gap holds no revision that a record has.
  expect(gaps).toEqual([{ kind: undefined, first: lost.revision, last: after.revision - 2 }]);
});

test('what a new server wrote before another one found that history was lost takes revisions from which readers can resume', async () => {
  const { store: here, url, org, owner } = await makeWorld(postgres);
  const create = (store: Store) => store.devices.create(org, owner, device(owner.user_id));
  const gone = await create(here);
  const { revision: kept } = await create(here);
  for (let n = 0; n < 4; n += 1) await create(here);
  // A snapshot is put back, and the first server to notice is one that knows nothing of what is lost.
  await query(url, `DELETE FROM changes WHERE revision > ${kept}`);
  await query(url, `DELETE FROM devices WHERE revision > ${kept}`);
  await query(url, `UPDATE heads SET revision = ${kept} WHERE org_id = '${org}'`);
  await query(url, `UPDATE eras SET started_at = 'epoch'`);
  const there = await openTestStore(url);
  const written = await create(there);
  await there.devices.delete(org, owner, parseDeviceId(gone.id));
  expect(written.revision).toBe(kept + 1);
  await here.log.heads([org]);

  const { gaps, eras } = await there.log.resumption(org);
  const state = await stateOf(there, org, { kinds: both, after: 0, deletions: true });
  const names = state.map(({ type, id }) => `${type} ${id}`);
  expect(names.slice(-2)).toEqual([`change ${written.id}`, `delete ${gone.id}`]);
  for (const { revision, kind } of state)
    if (kind !== 'organization') expect(isInGap(gaps, kind, revision)).toBe(false);
  expect(gaps).toEqual([{ kind: undefined, first: kept + 1, last: expect.any(Number) }]);
  // The log goes on from there, in the era that everything from the cut on belongs to.
  const { revision: next } = await create(there);
  const log = (await there.log.readChanges(org, next - 3, 10)) ?? [];
  expect(log.map(({ id, era }) => [id, era])).toEqual([
    [written.id, eras.at(-1)?.era],
    [gone.id, eras.at(-1)?.era],
    [expect.any(String), eras.at(-1)?.era],
  ]);
  expect(eras.at(-1)?.first).toBe(kept + 1);
});

describe('whatever is written and forgotten', () => {
  const kinds = both;
  const keyOf = ({ kind, id }: Pick<Entry, 'kind' | 'id'>): string => `${kind} ${id}`;

  test.each([1, 2, 3])('a resume misses nothing, and no record has a revision in a gap (seed %i)', async (seed) => {
    const random = new Random(seed);
    const { store, org, owner } = await makeWorld(postgres, { deletionRetentionMs: 0 });
    const live = new Map<string, Entry>();
    /** What a reader that has followed up to a revision holds. */
    const heldAt: ReadonlyMap<string, Entry>[] = [new Map()];
    const follow = async (): Promise<void> => {
      for (const entry of await logOf(store, org, heldAt.length - 1)) {
        if (entry.type === 'delete') live.delete(keyOf(entry));
        else live.set(keyOf(entry), entry);
        heldAt.push(new Map(live));
      }
    };
    const write = async (): Promise<unknown> => {
      const devices = [...live.values()].filter(({ kind }) => kind === 'device');
      const groups = [...live.values()].filter(({ kind, json }) => kind !== 'device' && !json.includes('is_default'));
      if (random.chance(0.3)) return store.devices.create(org, owner, device(owner.user_id));
      if (random.chance(0.2)) return store.groups.create(org, owner, 'organization', group());
      if (groups.length > 0 && random.chance(0.3))
        return store.groups.delete(org, owner, 'organization', parseGroupId(random.pick(groups).id));
      if (devices.length === 0) return undefined;
      const id = parseDeviceId(random.pick(devices).id);
      return random.chance(0.4)
        ? store.devices.update(org, owner, id, { hostname: `host-${random.bits()}` })
        : store.devices.delete(org, owner, id);
    };
    const check = async (): Promise<void> => {
      const { gaps } = await store.log.resumption(org);
      const listed = [...live.values()].filter(({ revision }) => kinds.some((kind) => isInGap(gaps, kind, revision)));
      expect(brief(listed)).toEqual([]);
      for (const kind of kinds) {
        const ofKind = (held: ReadonlyMap<string, Entry>): ReadonlyMap<string, Entry> =>
          new Map([...held].filter(([, entry]) => entry.kind === kind));
        const now = [...ofKind(live).values()].map(({ json }) => json).toSorted();
        for (const [revision, held] of heldAt.entries()) {
          if (revision === 0 || isInGap(gaps, kind, revision)) continue;
          const mine = new Map(ofKind(held));
          const after = { kinds: [kind], after: revision, deletions: true };
          for (const entry of await stateOf(store, org, after)) {
            if (entry.type === 'delete') mine.delete(keyOf(entry));
            else mine.set(keyOf(entry), entry);
          }
          const heldNow = [...mine.values()].map(({ json }) => json).toSorted();
          expect(heldNow, `${kind} from ${revision}`).toEqual(now);
        }
      }
    };
    for (let round = 0; round < 4; round += 1) {
      for (let index = 0; index < 12; index += 1) {
        await write();
        await follow();
      }
      await store.log.compact();
      await check();
    }
    expect((await store.log.resumption(org)).gaps.length).toBeGreaterThan(0);
  });
});

/** A bound, no measure. */
const soon = { timeout: 60_000 };

test('hints reach this process at once and another one through the database', async () => {
  const { store, url, org, owner, member } = await makeWorld(postgres);
  const other = await openTestStore(url);
  const here: Hint[] = [];
  const there: Hint[] = [];
  const stop = store.log.onHint((hint) => here.push(hint));
  other.log.onHint((hint) => there.push(hint));
  await store.devices.create(org, owner, device(owner.user_id));
  expect(here.flatMap(({ organizations }) => organizations)).toEqual([org]);
  await vi.waitFor(() => expect(there.flatMap(({ organizations }) => organizations)).toContain(org), soon);
  stop();
  await store.members.remove(org, owner, member.user_id);
  const removed = [{ organization_id: org, user_id: member.user_id }];
  await vi.waitFor(() => expect(there.flatMap((hint) => hint.removed_members)).toEqual(removed), soon);
  expect(here).toHaveLength(1);
});

test('a refused write gives no hint', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const hints: Hint[] = [];
  store.log.onHint((hint) => hints.push(hint));
  await expect(store.devices.delete(org, owner, parseDeviceId(org))).rejects.toThrow('not_found');
  expect(hints).toEqual([]);
});
