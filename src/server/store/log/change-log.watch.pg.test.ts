/** Proves what streams need from the log: departures at their own revision, and ended rights. */
import { asServer } from '../data/actor.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseGroupId } from '../../../policy/ids.ts';
import type { Store } from '../open.ts';
import { device, group, makeWorld, someDigest, stateOf } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const query = { kinds: ['security-groups'], deletions: true } as const;

test("a user's group that left everyone's view is a departure at that revision, whatever its owner does to it later", async () => {
  const { store, org, member } = await makeWorld(postgres);
  const id = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const held = await store.devices.create(org, member, device(member.user_id, { security_groups: [id] }));
  await store.devices.update(org, member, held.record.id, { security_groups: [] });
  const states = await stateOf(store, org, { ...query, after: held.revision, bytes: 1 });
  // What its owner sees has the same revision, and comes on the same page however small it is.
  expect(states.map(({ revision, type }) => `${type} ${revision}`).toSorted()).toEqual([
    `change ${held.revision + 2}`,
    `delete ${held.revision + 2}`,
  ]);
  const left = states.find((one) => one.hidden_from);
  expect(left).toMatchObject({ revision: held.revision + 2, type: 'delete', id, hidden_from: member.user_id });
  expect(JSON.parse(left?.json ?? '')).toEqual({ id, org_id: org, revision: held.revision + 2 });

  await store.groups.update(org, member, member.user_id, id, { group_name: 'private' });
  await store.groups.delete(org, member, member.user_id, id);
  const later = await stateOf(store, org, { ...query, after: held.revision });
  expect(later.map(({ revision, type, only_for, hidden_from }) => [revision, type, only_for, hidden_from])).toEqual([
    [held.revision + 2, 'delete', undefined, member.user_id],
    [held.revision + 4, 'delete', member.user_id, undefined],
  ]);
  expect(await stateOf(store, org, { ...query, after: held.revision + 4 })).toEqual([]);
  const listed = await stateOf(store, org, { ...query, deletions: false, after: 1 });
  expect(listed).toEqual([]);
});

test('a group deleted while it was applied is a deletion for everyone, and no departure', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const id = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const held = await store.devices.create(org, member, device(member.user_id, { security_groups: [id] }));
  await store.groups.delete(org, member, member.user_id, id, { detach: true });
  const entries = await stateOf(store, org, { ...query, after: held.revision });
  expect(entries.map(({ type, only_for, hidden_from }) => [type, only_for, hidden_from])).toEqual([
    ['delete', undefined, undefined],
  ]);
});

test('a revoked token and a removed member are told of with the heads, each ending once', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const token = await store.tokens.issue(member.user_id, { digest: someDigest(), name: '', scope: 'full' }, asServer);
  const before = await store.log.heads([org]);
  expect(before.ended).toEqual([]);
  await store.tokens.rotate(token.id, someDigest(), asServer);
  await store.tokens.revoke(token.id, asServer);
  await store.members.remove(org, owner, member.user_id);
  const { ended } = await store.log.heads([org]);
  expect(new Set(ended.map(({ serial }) => serial)).size).toBe(3);
  expect(ended).toMatchObject([
    { token_id: token.id },
    { token_id: token.id },
    { organization_id: org, user_id: member.user_id },
  ]);
});

/** A cursor past everything that has ended so far: it may take until others in this PostgreSQL have ended their transactions. */
async function pastAll(store: Store, from: string): Promise<string> {
  for (let since = from; ; await sleep(20)) {
    const { ended, endedThrough } = await store.log.heads([], since);
    if (ended.length === 0) return endedThrough;
    since = endedThrough;
  }
}

test('an ending that was told of is not read again, however many there are', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const token = await store.tokens.issue(member.user_id, { digest: someDigest(), name: '', scope: 'full' }, asServer);
  for (let round = 0; round < 50; round += 1) await store.tokens.rotate(token.id, someDigest(), asServer);
  const first = await store.log.heads([org]);
  expect(first.ended).toHaveLength(50);
  const through = await pastAll(store, first.endedThrough);
  await store.tokens.rotate(token.id, someDigest(), asServer);
  expect((await store.log.heads([org], through)).ended).toHaveLength(1);
});

test('an ending that is committed late is told of, though later ones were told of before it', async () => {
  const { store, org, member, url } = await makeWorld(postgres);
  const token = await store.tokens.issue(member.user_id, { digest: someDigest(), name: '', scope: 'full' }, asServer);
  const slow = new Client({ connectionString: url });
  await slow.connect();
  onTestFinished(() => slow.end());
  await slow.query('BEGIN');
  await slow.query('INSERT INTO revocations (token_id) VALUES ($1)', ['00000000-0000-4000-8000-00000000000a']);
  await store.tokens.revoke(token.id, asServer);
  const first = await store.log.heads([org]);
  expect(first.ended).toMatchObject([{ token_id: token.id }]);
  await slow.query('COMMIT');
  const second = await store.log.heads([org], first.endedThrough);
  expect(second.ended).toContainEqual(expect.objectContaining({ token_id: '00000000-0000-4000-8000-00000000000a' }));
  await pastAll(store, second.endedThrough);
});

test('a cursor of another database, as after a restored backup, misses nothing', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const token = await store.tokens.issue(member.user_id, { digest: someDigest(), name: '', scope: 'full' }, asServer);
  await store.tokens.revoke(token.id, asServer);
  expect((await store.log.heads([org], '999999999999')).ended).toMatchObject([{ token_id: token.id }]);
});
