/**
 * Proves what the hub does with transactions of its server's other processes, which arrive directly and by NOTIFY:
 * either one is enough.
 */
import { describe, expect, test } from 'vitest';
import { Random } from '../../../test/lib/random.ts';
import { device, hubMaker, loopTurns, seen } from './hub.fixture.ts';
import { ModelWorkerPeer } from './worker-peer.fixture.ts';

const make = hubMaker();

async function watched() {
  const t = make();
  const peer = new ModelWorkerPeer(t.db);
  const sink = await t.watch(device);
  const write = (count: number, isKnown = true): void => {
    const before = t.db.head;
    for (let i = 0; i < count; i += 1) t.db.create('device');
    peer.tell(before, { isKnown });
  };
  const all = (): readonly string[] => ['tail', ...t.db.log.map(({ revision }) => `change ${revision}`)];
  return { ...t, db: t.db, hub: t.hub, peer, sink, write, all };
}

describe('a transaction of another process of this server', () => {
  test('is sent as it is told of, without a read, and byte for byte as a read would have it', async () => {
    const t = await watched();
    const { changes } = t.db.reads;
    t.write(1);
    t.write(2);
    await loopTurns();
    t.peer.arrive(1);
    t.peer.notify();
    t.peer.notice({ isLost: false });
    await loopTurns();
    expect(t.sink.lines().slice(1)).toEqual(t.db.log.map(({ json }) => `{"type":"change","value":${json}}`));
    expect(t.db.reads.changes).toBe(changes);
  });

  test('of which it tells no entries is read once, though NOTIFY tells of it too', async () => {
    const t = await watched();
    const { changes } = t.db.reads;
    t.write(1, false);
    await loopTurns();
    t.peer.arrive(1);
    t.peer.notify();
    await loopTurns();
    t.peer.notice({ isLost: false });
    await loopTurns();
    expect(seen(t.sink)).toEqual(t.all());
    expect(t.db.reads.changes).toBe(changes + 1);
  });

  test('that NOTIFY tells of first is sent once', async () => {
    const t = await watched();
    t.write(1);
    await loopTurns();
    t.peer.notify();
    t.peer.notice({ isLost: false });
    await loopTurns();
    const { changes } = t.db.reads;
    t.peer.arrive(1);
    await loopTurns();
    expect(seen(t.sink)).toEqual(t.all());
    expect(t.db.reads.changes).toBe(changes);
  });

  test('is not sent before what comes before it', async () => {
    const t = await watched();
    t.db.create('device');
    t.write(1);
    await loopTurns();
    t.peer.arrive(1);
    await loopTurns();
    expect(seen(t.sink)).toEqual(t.all());
  });

  test.each(['messages', 'notices'] as const)(
    'arrives without a look at the heads, in order and once, though %s are lost at random',
    async (lossy) => {
      for (let seed = 1; seed <= 30; seed += 1) {
        const random = new Random(seed);
        const t = await watched();
        const { heads } = t.db.reads;
        for (let step = 0; step < 60; step += 1) {
          t.write(random.int(1, 2), random.chance(0.7));
          await loopTurns(random.int(0, 2));
          if (random.chance(0.4)) t.peer.notify();
          if (lossy === 'messages' && random.chance(0.3)) t.peer.lose(1);
          if (random.chance(0.5)) t.peer.arrive(1);
          if (random.chance(0.4)) t.peer.notice({ isLost: lossy === 'notices' && random.chance(0.5) });
        }
        t.peer.notify();
        await loopTurns();
        if (lossy === 'messages') t.peer.lose(100);
        t.peer.arrive(100);
        for (let i = 0; i < 60; i += 1) t.peer.notice({ isLost: lossy === 'notices' });
        await loopTurns();
        expect([seed, seen(t.sink)]).toEqual([seed, t.all()]);
        expect(t.db.reads.heads).toBe(heads);
      }
    },
  );
});
