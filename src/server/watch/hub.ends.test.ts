/** Proves the hub's rules on the end of streams and on their cost: slow readers, endings, memory. */
import { describe, expect, test } from 'vitest';
import { parseTokenId } from '../../policy/ids.ts';
import { both, device, hubMaker, seen, loopTurns } from './hub.fixture.ts';
import { LocalStreamQuota } from '../limits/stream-quota.ts';
import { modelOrg, userOf } from './model.fixture.ts';
import { FakeSink } from './sink.fixture.ts';

const make = hubMaker();
const token = parseTokenId('44444444-4444-4444-8444-444444444444');
const otherToken = parseTokenId('55555555-5555-4555-8555-555555555555');

describe('a reader that does not keep up', () => {
  test('costs one write in memory and no queue, and goes on where it was', async () => {
    const t = make();
    const [slow, quick] = [await t.watch(device), await t.watch(device)];
    slow.full = true;
    for (let i = 0; i < 500; i += 1) {
      t.db.create('device');
      await t.hint();
    }
    expect(quick.received('device')).toHaveLength(501);
    expect(slow.held).toBeLessThan(1_000);
    slow.drain();
    await loopTurns();
    expect(slow.received('device')).toEqual(quick.received('device'));
  });

  test('whose cursor has left the ring goes on from the state: last states and deletions, never a gap', async () => {
    const t = make({ settings: { ringBytes: 2_000 } });
    const sink = await t.watch(both);
    const group = t.db.create('security-groups');
    const ids = Array.from({ length: 100 }, () => t.db.create('device'));
    sink.full = true;
    await t.hint();
    for (const id of ids) t.db.update(id);
    t.db.update(group);
    t.db.delete(ids[0] ?? '');
    await t.hint();
    sink.drain();
    await loopTurns();
    const last = sink.received().slice(-101);
    expect(last.map(({ revision }) => revision)).toEqual(Array.from({ length: 101 }, (_, i) => 103 + i));
    expect(last.at(-1)?.type).toBe('delete');
  });

  test('and takes nothing for long is cut off', async () => {
    const t = make();
    const sink = await t.watch(device);
    sink.full = true;
    t.db.create('device');
    await t.hint();
    await t.pass(59_000);
    expect(sink.destroyed).toBe(false);
    await t.pass(2_000);
    expect(sink.destroyed).toBe(true);
    expect(t.hub.stats.endings.get('stuck')).toBe(1);
    expect(t.hub.streams).toBe(0);
  });
});

test('the silence of a stream is counted from what it was last sent', async () => {
  const t = make();
  const sink = await t.watch(device);
  await t.pass(14_000);
  t.db.create('device');
  await t.hint();
  await t.pass(14_000);
  expect(t.hub.stats.heartbeats).toBe(0);
  await t.pass(1_000);
  expect(t.hub.stats.heartbeats).toBe(1);
  expect(sink.body().endsWith('\n\n')).toBe(true);
});

test('a connection that breaks while it is written to ends its stream, and all others get their change', async () => {
  const t = make();
  const sinks = [];
  for (let i = 0; i < 20; i += 1) sinks.push(await t.watch(device));
  t.db.create('device');
  await t.hint();
  // These connections are closed, but no event has reported it yet.
  const broken = sinks.filter((_sink, index) => index % 6 === 1);
  for (const sink of broken) sink.broken = true;
  t.db.create('device');
  await t.hint();
  for (const sink of broken) sink.close();
  expect(t.hub.streams).toBe(sinks.length - broken.length);
  for (const sink of sinks) expect(seen(sink)).toHaveLength(broken.includes(sink) ? 2 : 3);
});

test('streams that go in the middle of a round cost no other its change, and none gets it twice', async () => {
  const t = make({ settings: { slice: 16 } });
  const sinks: FakeSink[] = [];
  for (let i = 0; i < 100; i += 1) sinks.push(await t.watch(device));
  t.db.create('device');
  t.db.hint();
  let turns = 0;
  for (; turns < 1_000 && t.hub.stats.deliveries < sinks.length + 16; turns += 1) await loopTurns(1);
  expect(t.hub.stats.deliveries, 'the round is under way').toBeLessThan(sinks.length + 90);
  // The first streams are served last.
  const gone = sinks.slice(0, 5);
  for (const sink of gone) sink.close();
  await loopTurns(100);
  for (const sink of sinks) expect(seen(sink)).toEqual(gone.includes(sink) ? ['tail'] : ['tail', 'change 1']);
});

describe('a stream ends cleanly', () => {
  test('when its credential is revoked, by the hint', async () => {
    const t = make();
    const [mine, other] = [await t.watch(device, { token }), await t.watch(device)];
    t.db.hint({ credentials: [token] });
    expect(mine.clean).toBe(true);
    expect(other.ended).toBe(false);
  });

  test('when its credential is revoked and the hint is lost, by the next tick', async () => {
    const t = make();
    const [mine, other] = [await t.watch(device, { token }), await t.watch(device)];
    t.db.ended.push({ serial: 1, token_id: token });
    await t.pass(250);
    expect(mine.clean).toBe(true);
    expect(other.ended).toBe(false);
  });

  test('when its credential was revoked between the guard and the opening', async () => {
    const t = make();
    await t.watch(device);
    const opening = t.open(device, { token });
    t.db.hint({ credentials: [token] });
    const sink = await opening;
    expect(typeof sink === 'string' || sink.clean).toBe(true);
  });

  test('once for each ending: a stream opened with the secret that came after it stays', async () => {
    const t = make();
    await t.watch(device, { token });
    t.db.ended.push({ serial: 1, token_id: token });
    await t.pass(250);
    t.now += 1;
    const later = await t.watch(device, { token });
    await t.pass(250);
    expect(later.ended).toBe(false);
    t.db.ended.push({ serial: 2, token_id: token });
    await t.pass(250);
    expect(later.clean).toBe(true);
  });

  test('when its credential expires', async () => {
    const t = make();
    const sink = await t.watch(device, { expiresAt: t.now + 5_000 });
    await t.pass(4_000);
    expect(sink.ended).toBe(false);
    await t.pass(1_000);
    expect(sink.clean).toBe(true);
  });

  test('when the member is removed, with and without the hint', async () => {
    const t = make();
    const gone = { organization_id: modelOrg, user_id: userOf(1) };
    const first = await t.watch(device);
    t.db.hint({ removed_members: [gone] });
    expect(first.clean).toBe(true);
    first.close();
    t.now += 1;
    const [second, other] = [await t.watch(device), await t.watch(device, { user: userOf(2) })];
    t.db.ended.push({ serial: 1, ...gone });
    await t.pass(250);
    expect(second.clean).toBe(true);
    expect(other.ended).toBe(false);
  });

  test('when the organization goes, with and without the hint', async () => {
    const t = make();
    const first = await t.watch(device);
    t.db.hint({ deleted_organizations: [modelOrg] });
    expect(first.clean).toBe(true);
    first.close();
    const second = await t.watch(device);
    t.db.exists = false;
    await t.pass(250);
    expect(second.clean).toBe(true);
    expect(await t.open(device)).toBe('not_found');
  });

  test('at its maximum age, jittered', async () => {
    const t = make({ settings: { maxAgeMs: 100_000 } });
    const sink = await t.watch(device);
    await t.pass(89_000);
    expect(sink.ended).toBe(false);
    await t.pass(2_000);
    expect(sink.clean).toBe(true);
  });

  test('when the server drains, and no new one is taken', async () => {
    const t = make();
    const sink = await t.watch(device);
    const drained = t.hub.drain();
    expect(sink.clean).toBe(true);
    expect(await t.open(device)).toBe('draining');
    sink.close();
    await drained;
  });

  test('when the server drains: many streams end over some seconds, and no longer than there is time', async () => {
    const t = make();
    const sinks = await Promise.all(Array.from({ length: 400 }, () => t.watch(device)));
    t.delays.length = 0;
    const drained = t.hub.drain(200);
    expect(sinks.filter(({ clean }) => clean)).toHaveLength(100);
    while (sinks.some(({ clean }) => !clean)) await loopTurns(1);
    expect(t.delays).toEqual([50, 50, 50]);
    for (const sink of sinks) sink.close();
    await drained;
  });

  test('when the database does not answer for ten seconds, if its reader knows another server', async () => {
    const t = make();
    const [leaving, staying] = [await t.watch(device, { leavesWhenNotReady: true }), await t.watch(device)];
    const polls = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i += 1) await t.pass(150);
    };
    t.db.down = true;
    await polls(60);
    // It answers once, so that the time begins anew. A process that was frozen has not asked.
    t.db.down = false;
    await polls(1);
    t.db.down = true;
    await t.pass(60_000);
    await polls(60);
    expect(leaving.ended).toBe(false);
    await polls(10);
    expect([leaving.clean, staying.ended]).toEqual([true, false]);
    t.db.down = false;
    t.db.create('device');
    await t.pass(250);
    expect(seen(staying)).toEqual(['tail', 'change 1']);
  });

  test('when the database went back in time, after which its revision is gone', async () => {
    const t = make();
    for (let i = 0; i < 5; i += 1) t.db.create('device');
    const sink = await t.watch(device);
    t.db.log.length = 3;
    await t.pass(250);
    expect(sink.clean).toBe(true);
    expect(await t.open([{ kind: 'device', gt_revision: 5 }])).toBe('revision_gone');
    expect(seen(await t.watch(device))).toEqual(['change 1', 'change 2', 'change 3', 'tail']);
  });

  test('and a connection that does not close after its end is closed', async () => {
    const t = make();
    const sink = await t.watch(device);
    const drained = t.hub.drain();
    await t.pass(6_000);
    expect(sink.destroyed).toBe(true);
    await drained;
  });
});

describe('the end of a right', () => {
  test('touches no stream but those of its credential or member', async () => {
    const t = make();
    let looks = 0;
    const holder = {
      user: userOf(1),
      reader: userOf(1),
      kind: 'user' as const,
      credential: 'other',
      expiresAt: undefined,
      get token() {
        looks += 1;
        return otherToken;
      },
    };
    const sink = new FakeSink();
    const refused = await t.hub.open({
      org: modelOrg,
      items: device,
      holder,
      admittedAt: t.now,
      chunked: true,
      accept: () => sink,
    });
    expect(refused).toBeUndefined();
    await loopTurns();
    const mine = await t.watch(device, { token, user: userOf(2) });
    looks = 0;
    t.db.hint({ credentials: [token] });
    t.db.hint({ removed_members: [{ organization_id: modelOrg, user_id: userOf(2) }] });
    t.db.ended.push({ serial: 1, token_id: token });
    await t.pass(200);
    expect([mine.ended, sink.ended, looks]).toEqual([true, false, 0]);
  });

  test('is read once from the database, however often it is looked', async () => {
    const t = make();
    await t.watch(device);
    for (let serial = 1; serial <= 100; serial += 1) t.db.ended.push({ serial, token_id: token });
    const asked: (string | undefined)[] = [];
    const heads = t.db.heads.bind(t.db);
    t.db.heads = (orgs, since) => {
      asked.push(since);
      return heads(orgs, since);
    };
    for (let i = 0; i < 3; i += 1) await t.pass(200);
    expect(asked).toEqual(['0', '100', '100']);
  });
});

describe('the number of streams', () => {
  const limits = { perUserCredential: 3, perDeviceToken: 2, perOrganization: 6, waits: 1 };

  test('of a credential and of an organization is bounded, and a stream that ends makes room', async () => {
    const t = make({ streamQuota: new LocalStreamQuota(limits) });
    const first = await t.watch(device, { token });
    for (let i = 0; i < 2; i += 1) await t.watch(device, { token });
    expect(await t.open(device, { token })).toBe('credential_streams');
    for (let i = 0; i < 2; i += 1) await t.watch(device, { token: otherToken, kind: 'device' });
    expect(await t.open(device, { token: otherToken, kind: 'device' })).toBe('credential_streams');
    await t.watch(device, { user: userOf(3) });
    expect(await t.open(device, { user: userOf(4) })).toBe('organization_streams');
    first.close();
    await t.watch(device, { token });
    expect(await t.open(device, { token })).toBe('credential_streams');
  });

  test('does not count requests that are refused or fail', async () => {
    const t = make({ streamQuota: new LocalStreamQuota(limits) });
    for (let i = 0; i < 10; i += 1) {
      expect(await t.open([{ kind: 'device', gt_revision: 99 }], { token })).toBe('revision_gone');
    }
    t.db.down = true;
    for (let i = 0; i < 10; i += 1) await expect(t.open(device, { token })).rejects.toThrow('down');
    t.db.down = false;
    for (let i = 0; i < 3; i += 1) await t.watch(device, { token });
  });
});

describe('memory', () => {
  test('of an organization that nobody watches is given back after a while', async () => {
    const t = make();
    const sink = await t.watch(device);
    sink.close();
    await t.pass(30_000);
    expect(t.hub.organizations).toBe(1);
    await t.pass(31_000);
    expect(t.hub.organizations).toBe(0);
    expect(t.hub.memory).toEqual({ rings: 0, listings: 0 });
  });

  test('of rings and listings stays within its bounds', async () => {
    const t = make({ settings: { ringsBytes: 20_000, listingBytes: 50_000 } });
    const sink = await t.watch(device);
    for (let i = 0; i < 1_000; i += 1) t.db.create('device');
    await t.hint();
    const listed = await t.watch(device);
    await t.pass(250);
    expect(t.hub.memory.rings).toBeLessThanOrEqual(20_000);
    expect(t.hub.memory.listings).toBeLessThanOrEqual(50_000);
    expect(listed.received('device')).toHaveLength(1_001);
    expect(sink.received('device')).toHaveLength(1_001);
    // What was let go is read again when someone asks.
    expect((await t.watch(device)).received('device')).toHaveLength(1_001);
  });
});
