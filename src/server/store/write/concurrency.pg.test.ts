/** Proves revisions under concurrency: two servers on one PostgreSQL, many writers, and readers that poll. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { rounds } from '../../../../test/lib/thorough.ts';
import { parseDeviceId, parseGroupId, type OrganizationId } from '../../../policy/ids.ts';
import { StoreError } from '../../problems.ts';
import { device, group, logOf, makeWorld, openTestStore, someDigest, stateOf } from '../store.fixture.ts';
import type { WatchKind } from '../../../api/kinds.ts';
import type { Entry } from '../data/change-log.ts';
import { asServer, type Actor } from '../data/actor.ts';
import type { Store } from '../open.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const writers = 16;
const writesEach = rounds(60, 500);
const both: readonly WatchKind[] = ['device', 'security-groups'];

/**
 * Polls the log, as a server of streams does, until the test says that `head` is the last revision. Fails when it
 * misses anything. When there are many of them, they pause when nothing is new and leave the processor to the writers.
 */
function follow(
  store: Store,
  org: OrganizationId,
  { restMs }: { readonly restMs?: number } = {},
): { seen: Entry[]; until: (head: number) => Promise<void> } {
  const seen: Entry[] = [];
  let last = 0;
  let end = Infinity;
  const loop = (async () => {
    while (last < end) {
      const page = await store.log.readChanges(org, last, 1000);
      if (page === undefined) throw new Error(`the log has a hole after ${last}`);
      seen.push(...page);
      last = page.at(-1)?.revision ?? last;
      if (restMs !== undefined && page.length === 0) await sleep(restMs);
    }
  })();
  return {
    seen,
    until: (head) => {
      end = head;
      return loop;
    },
  };
}

/** One writer's day: devices come, change, get and lose groups, and go; groups too. Gives what was answered, by revision. */
async function work(store: Store, org: OrganizationId, by: Actor, writes: number): Promise<Map<number, string>> {
  const answered = new Map<number, string>();
  const note = (record: { revision: number; json: string }): void => void answered.set(record.revision, record.json);
  const own = await store.groups.create(org, by, by.user_id, group());
  const made = await store.devices.create(org, by, device(by.user_id));
  [own, made].forEach(note);
  const groupId = parseGroupId(own.id);
  const deviceId = parseDeviceId(made.id);
  for (let index = 2; index < writes; index += 1) {
    const step = index % 10;
    if (step < 6) note(await store.devices.update(org, by, deviceId, { hostname: `h${index}` }));
    else if (step === 6)
      note(await store.groups.update(org, by, by.user_id, groupId, { group_description: `${index}` }));
    else if (step === 7)
      note(await store.devices.update(org, by, deviceId, { security_groups: index % 20 < 10 ? [groupId] : [] }));
    else if (step === 8)
      note(
        await store.devices.create(org, by, device(by.user_id, { fields: { public_key: `${by.user_id} ${index}` } })),
      );
    else {
      const [oldest] = await store.devices.list(org, { limit: 1, after: deviceId });
      if (oldest?.record.user_id !== by.user_id)
        note(await store.devices.update(org, by, deviceId, { local_ip: `${index}` }));
      else note(await store.devices.delete(org, by, oldest.record.id));
    }
  }
  return answered;
}

/** What the log says is there: the last entry of each resource, unless it is a deletion. */
function replay(entries: readonly Entry[]): Map<string, string> {
  const state = new Map<string, string>();
  for (const { kind, type, id, json } of entries) {
    if (kind === 'organization') continue;
    if (type === 'change') state.set(id, json);
    else state.delete(id);
  }
  return state;
}

async function check(
  store: Store,
  org: OrganizationId,
  seen: readonly Entry[],
  answered: ReadonlyMap<number, string>,
): Promise<void> {
  const { revision: head } = await store.organizations.get(org);
  expect(seen.map(({ revision }) => revision)).toEqual(Array.from({ length: head }, (_, index) => index + 1));
  const logged = new Map(seen.map(({ revision, json }) => [revision, json]));
  for (const [revision, json] of answered) expect(logged.get(revision)).toBe(json);
  const state = await stateOf(store, org, { kinds: both, after: 0, deletions: false });
  expect(new Map(state.map(({ id, json }) => [id, json]))).toEqual(replay(seen));
  expect(await logOf(store, org)).toEqual(seen);
}

async function crowd(store: Store, org: OrganizationId, owner: Actor, size: number): Promise<Actor[]> {
  const members: Actor[] = [];
  for (let index = 0; index < size; index += 1) {
    const user =
      (await store.users.byName(`user ${index}`)) ??
      (await store.users.create({ username: `user ${index}` }, asServer));
    await store.members.add(org, owner, { user_id: user.id });
    members.push({ user_id: user.id, ...asServer });
  }
  return members;
}

test(`16 writers × ${writesEach} writes to one organization through two servers: gap-free, in order, nothing missed, nothing lost`, async () => {
  const { store, url, org, owner } = await makeWorld(postgres);
  const replicas = [store, await openTestStore(url)];
  const reader = follow(await openTestStore(url), org, { restMs: 1 });
  const members = await crowd(store, org, owner, writers);
  const answers = await Promise.all(
    members.map((by, index) => work(replicas[index % 2] ?? store, org, by, writesEach)),
  );
  const answered = new Map(answers.flatMap((map) => [...map]));
  expect(answered.size).toBe(answers.reduce((sum, map) => sum + map.size, 0));
  await reader.until((await store.organizations.get(org)).revision);
  await check(store, org, reader.seen, answered);
  expect(answered.size).toBeGreaterThan(writers * writesEach * 0.95);
});

test(`16 writers × ${writesEach} writes spread over 32 organizations: each organization is in order by itself`, async () => {
  const { store, url, owner } = await makeWorld(postgres);
  const replicas = [store, await openTestStore(url)];
  const orgs = await Promise.all(
    Array.from(
      { length: 32 },
      async (_, index) =>
        (await store.organizations.create(owner.user_id, { name: `${index}`, description: '' }, asServer)).id,
    ),
  );
  const readers = orgs.map((org) => follow(replicas[1] ?? store, org, { restMs: 5 }));
  const answered = new Map(orgs.map((org) => [org, new Map<number, string>()]));
  await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      for (let round = 0; round < 2; round += 1) {
        const org = orgs[writer * 2 + round];
        if (org === undefined) throw new Error('no organization');
        for (const [revision, json] of await work(replicas[writer % 2] ?? store, org, owner, writesEach / 2))
          answered.get(org)?.set(revision, json);
      }
    }),
  );
  for (const [index, org] of orgs.entries()) {
    const reader = readers[index];
    await reader?.until((await store.organizations.get(org)).revision);
    await check(store, org, reader?.seen ?? [], answered.get(org) ?? new Map());
    expect(answered.get(org)?.size).toBeGreaterThan(writesEach * 0.4);
  }
});

test('a crowd of 80 at one server, some of whose writes fail: what was answered is what the log says, in order', async () => {
  const { store, url, org, owner } = await makeWorld(postgres);
  const reader = follow(await openTestStore(url), org, { restMs: 1 });
  const taken = { digest: someDigest(), name: '' };
  await store.devices.create(org, owner, device(owner.user_id, { token: taken }));
  const answered = new Map<number, string>();
  const refused: string[] = [];
  const attempt = async (write: Promise<{ revision: number; json: string }>): Promise<void> => {
    await write.then(
      ({ revision, json }) => answered.set(revision, json),
      (error: unknown) => refused.push(error instanceof StoreError ? error.code : String(error)),
    );
  };
  await Promise.all(
    Array.from({ length: 80 }, async (_, writer) => {
      const made = await store.devices.create(org, owner, device(owner.user_id));
      answered.set(made.revision, made.json);
      for (let index = 0; index < 25; index += 1) {
        await attempt(store.devices.update(org, owner, made.record.id, { hostname: `${writer} ${index}` }));
        // Of a set, this one is refused; and now and then one fails with an SQL error and takes its whole transaction back.
        if (writer % 8 === 0) await attempt(store.devices.update(org, owner, made.record.id, {}, { if_match: 1 }));
        if (writer === 7 && index % 8 === 0)
          await attempt(store.devices.create(org, owner, device(owner.user_id, { token: taken })));
      }
    }),
  );
  expect(answered.size).toBe(80 * 26);
  expect(refused.filter((code) => code === 'precondition_failed')).toHaveLength(10 * 25);
  expect(refused.filter((code) => code === 'unexpected')).toHaveLength(4);
  expect(refused).toHaveLength(254);
  const { revision: head } = await store.organizations.get(org);
  await reader.until(head);
  await check(store, org, reader.seen, answered);
});

test('with an expected revision no update is lost: 16 writers count together to 320', async () => {
  const { store, url, org, owner } = await makeWorld(postgres);
  const replicas = [store, await openTestStore(url)];
  const made = await store.groups.create(org, owner, 'organization', group({ group_description: '0' }));
  const id = parseGroupId(made.id);
  let conflicts = 0;
  const count = async (replica: Store): Promise<void> => {
    for (let done = 0; done < 20;) {
      const { record, revision } = await replica.groups.get(org, id, { reader: owner.user_id });
      const next = { group_description: String(Number(record.group_description) + 1) };
      try {
        await replica.groups.update(org, owner, 'organization', id, next, { if_match: revision });
        done += 1;
      } catch (error) {
        if (!(error instanceof StoreError) || error.code !== 'precondition_failed') throw error;
        conflicts += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: writers }, (_, index) => count(replicas[index % 2] ?? store)));
  expect((await store.groups.get(org, id, { reader: owner.user_id })).record.group_description).toBe('320');
  expect(conflicts).toBeGreaterThan(0);
});

test('members who go while their devices come leave nothing behind', async () => {
  const { store, url, org, owner } = await makeWorld(postgres);
  const other = await openTestStore(url);
  const members = await crowd(store, org, owner, 8);
  await Promise.all(
    members.map(async (by) => {
      const creating = Promise.allSettled(
        Array.from({ length: 20 }, (_, index) =>
          (index % 2 ? store : other).devices.create(org, by, device(by.user_id)),
        ),
      );
      await other.members.remove(org, owner, by.user_id);
      await creating;
    }),
  );
  expect(await store.devices.list(org)).toEqual([]);
  await check(store, org, await logOf(store, org), new Map());
});

test('writes that come together fail alone: refusals and an SQL error leave the others untouched', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const taken = { digest: someDigest(), name: '' };
  const first = await store.devices.create(org, owner, device(owner.user_id, { token: taken }));
  const elsewhere = parseDeviceId('00000000-0000-4000-8000-000000000000');
  const outcomes = await Promise.allSettled([
    store.devices.create(org, owner, device(owner.user_id)),
    store.devices.update(org, owner, elsewhere, { hostname: 'x' }),
    // A duplicate digest cannot happen by chance. It serves as an unforeseen SQL error.
    store.devices.create(org, owner, device(owner.user_id, { token: taken })),
    store.devices.update(org, owner, first.record.id, { hostname: 'x' }, { if_match: 1 }),
    store.devices.update(org, owner, first.record.id, { hostname: 'y' }),
    store.devices.update(org, owner, first.record.id, { security_groups: [parseGroupId(elsewhere)] }),
    store.devices.create(org, owner, device(owner.user_id, { fields: { public_key: first.record.public_key } })),
    store.groups.create(org, owner, 'organization', group()),
  ]);
  const code = (outcome: PromiseSettledResult<unknown>): string =>
    outcome.status === 'fulfilled'
      ? 'done'
      : outcome.reason instanceof StoreError
        ? outcome.reason.code
        : String(outcome.reason);
  expect(outcomes.map(code)).toEqual([
    'done',
    'not_found',
    'unexpected',
    'precondition_failed',
    'done',
    'group_list_invalid',
    'public_key_taken',
    'done',
  ]);
  await check(store, org, await logOf(store, org), new Map());
  expect((await store.organizations.get(org)).revision).toBe(5);
});
