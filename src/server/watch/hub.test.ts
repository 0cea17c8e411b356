/** Proves the hub's rules one by one, on a model database: what is sent, when, to which streams, and at what cost. */
import { describe, expect, test } from 'vitest';
import { processSlices } from '../scheduling/time-slices.ts';
import { OrganizationModels } from '../store/model/organizations.ts';
import { both, device, hubMaker, seen, loopTurns } from './hub.fixture.ts';
import { ModelDatabase, modelOrg, userOf } from './model.fixture.ts';

const make = hubMaker();

describe('a listing', () => {
  test('holds each resource once, in ascending revision, without deletions, then the tail', async () => {
    const t = make();
    const ids = [1, 2, 3].map(() => t.db.create('device'));
    t.db.update(ids[0] ?? '');
    t.db.delete(ids[1] ?? '');
    const sink = await t.watch(device);
    expect(seen(sink)).toEqual(['change 3', 'change 4', 'tail']);
  });

  test('of an empty organization is the tail alone', async () => {
    const t = make();
    expect((await t.watch(device)).body()).toBe('{"type":"tail"}\n');
  });

  test('includes what another server committed before the request, without any hint', async () => {
    const t = make();
    await t.watch(device);
    t.db.create('device');
    expect(seen(await t.watch(device))).toEqual(['change 1', 'tail']);
  });

  test('comes kind by kind in the order of the request, each with its tail, every document with its kind', async () => {
    const t = make();
    t.db.create('device');
    t.db.create('security-groups');
    t.db.create('device');
    const sink = await t.watch(both.toReversed());
    expect(sink.lines().map((line) => [JSON.parse(line).kind, JSON.parse(line).value?.revision])).toEqual([
      ['security-groups', 2],
      ['security-groups', undefined],
      ['device', 1],
      ['device', 3],
      ['device', undefined],
    ]);
  });

  test('with at_tail has no tail', async () => {
    const t = make();
    t.db.create('device');
    expect(seen(await t.watch([{ kind: 'device', at_tail: true }]))).toEqual(['change 1']);
  });

  test('for a thousand streams that come at once is read from the database once', async () => {
    const t = make();
    for (let i = 0; i < 200; i += 1) t.db.create('device');
    const sinks = await Promise.all(Array.from({ length: 1_000 }, () => t.watch(device)));
    await loopTurns(100);
    for (const sink of sinks) expect(sink.received('device')).toHaveLength(201);
    expect(t.db.reads.state).toBe(1);
    expect(t.db.reads.heads).toBeLessThan(10);
    expect(sinks[0]?.sent.at(-1)).toBeInstanceOf(Buffer);
    // The same bytes in memory, not equal ones.
    const shared = new Set(sinks.map((sink) => sink.sent[0]));
    expect(shared.size).toBe(1);
  });

  test('is brought up to date in memory for later streams', async () => {
    const t = make();
    const id = t.db.create('device');
    t.db.create('device');
    await t.watch(device);
    t.db.update(id);
    expect(seen(await t.watch(device))).toEqual(['change 2', 'change 3', 'tail']);
    expect(t.db.reads.state).toBe(1);
  });

  test('is read anew where the log has gone on by more than is worth to follow', async () => {
    const t = make();
    const id = t.db.create('device');
    const first = await t.watch(device);
    first.close();
    for (let n = 0; n < 17_000; n += 1) t.db.update(id);
    t.db.tell(1);
    expect(seen(await t.watch(device))).toEqual(['change 17001', 'tail']);
    expect(t.db.reads.state).toBe(2);
  });

  test('is read anew where most of it has changed several times', async () => {
    const t = make({ db: new ModelDatabase({ padding: 8_000 }) });
    const ids = Array.from({ length: 40 }, () => t.db.create('device'));
    const list = async (): Promise<readonly string[]> => {
      const sink = await t.watch(device);
      sink.close();
      return seen(sink);
    };
    await list();
    const { state } = t.db.reads;
    for (let round = 0; round < 20; round += 1) {
      const before = t.db.head;
      for (const id of ids) t.db.update(id);
      t.db.tell(before);
      expect(await list()).toEqual([...ids.map((_, n) => `change ${before + n + 1}`), 'tail']);
    }
    expect(t.db.reads.state).toBeGreaterThan(state);
    expect(t.db.reads.state).toBeLessThan(state + 10);
  });

  test('never shows what was read before the database was put back', async () => {
    let goOn = (): void => {};
    class SlowPages extends ModelDatabase {
      override async readState(...asked: Parameters<ModelDatabase['readState']>) {
        const page = await super.readState(...asked);
        if (this.reads.state === 1) await new Promise<void>((go) => (goOn = go));
        return page;
      }
    }
    const t = make({ db: new SlowPages() });
    for (let n = 0; n < 5; n += 1) t.db.create('device');
    const before = await t.watch(device);
    t.db.log.length = 3;
    await t.hub.poll();
    expect(before.ended).toBe(true);
    goOn();
    await loopTurns();
    t.db.create('device');
    // The change of this revision that was discarded is another one.
    const sent = (await t.watch(device)).lines();
    expect(sent.slice(0, -1)).toEqual(t.db.log.map(({ json }) => `{"type":"change","value":${json}}`));
  });

  test('has its tail between transactions, also when one takes several reads of the log', async () => {
    let goOn = (): void => {};
    class SlowSecondRead extends ModelDatabase {
      override async readChanges(...[org, after]: Parameters<ModelDatabase['readChanges']>) {
        const page = await super.readChanges(org, after, atOnce);
        if (after > first && page !== undefined && page.length > 0) await new Promise<void>((go) => (goOn = go));
        return page?.length === atOnce ? Object.assign(page, { isCut: true as const }) : page;
      }
    }
    const [first, atOnce] = [4_000, 500];
    const t = make({ db: new SlowSecondRead() });
    const ids = Array.from({ length: first }, () => t.db.create('device'));
    // From here on the listing is in memory.
    await t.watch(device);
    await loopTurns(100);
    const sink = await t.open(device);
    if (typeof sink === 'string') throw new Error(sink);
    // Too much for one turn: it is held in the middle of its listing.
    sink.full = true;
    await loopTurns();
    expect(sink.sent).toEqual([]);
    // One transaction, longer than a read of the log.
    for (const id of ids.slice(0, 600)) t.db.update(id);
    t.db.hint();
    await loopTurns();
    sink.drain();
    await loopTurns(100);
    goOn();
    await loopTurns(100);
    const received = sink.received('device');
    const before = received.slice(
      0,
      received.findIndex(({ type }) => type === 'tail'),
    );
    expect(before.at(-1)?.revision).toBe(first);
    expect(received.at(-1)?.revision).toBe(first + 600);
    expect(t.db.reads.changes).toBeGreaterThan(1);
  });

  test('is sent in plain bytes to a client of HTTP/1.0', async () => {
    const t = make();
    t.db.create('device');
    const sink = await t.watch(device, { chunked: false });
    expect(sink.body(false).split('\n')).toHaveLength(3);
    await t.hub.poll();
  });
});

describe('a stream', () => {
  test('is sent each later change in order, the same bytes as all others', async () => {
    const t = make();
    const [a, b] = [await t.watch(device), await t.watch(device)];
    const id = t.db.create('device');
    await t.hint();
    t.db.delete(id);
    await t.hint();
    expect(seen(a)).toEqual(['tail', 'change 1', 'delete 2']);
    expect(a.sent.at(-1)).toBe(b.sent.at(-1));
  });

  test('that is opened behind another server’s changes costs one read of the log', async () => {
    const t = make();
    await t.watch(device);
    t.db.create('device');
    const before = t.db.reads.changes;
    expect(seen(await t.watch(device))).toEqual(['change 1', 'tail']);
    expect(t.db.reads.changes - before).toBe(1);
  });

  test('of an organization that goes while it is opened is not found, without asking the database for ever', async () => {
    const db = new (class extends ModelDatabase {
      goes = false;
      override async heads(orgs: Parameters<ModelDatabase['heads']>[0]) {
        const heads = await super.heads(orgs);
        // Between the look at the head and that at the log.
        if (this.goes) this.exists = false;
        return heads;
      }
      override async readChanges(...args: Parameters<ModelDatabase['readChanges']>) {
        return this.exists ? super.readChanges(...args) : undefined;
      }
    })();
    const t = make({ db });
    await t.watch(device);
    db.create('device');
    db.goes = true;
    expect(await t.open(device)).toBe('not_found');
  });

  test('is sent several changes that came together in one write', async () => {
    const t = make();
    const sink = await t.watch(device);
    const before = sink.writes;
    for (let i = 0; i < 50; i += 1) t.db.create('device');
    await t.hint();
    expect(sink.received('device')).toHaveLength(51);
    expect(sink.writes).toBe(before + 1);
  });

  test('sees changes of its kinds only', async () => {
    const t = make();
    const sink = await t.watch(device);
    t.db.create('security-groups');
    t.db.touchOrganization();
    await t.hint();
    expect(seen(sink)).toEqual(['tail']);
  });

  test('loses nothing when every hint is lost: the backstop finds the change', async () => {
    const t = make();
    const sink = await t.watch(device);
    t.db.create('device');
    await loopTurns();
    expect(seen(sink)).toEqual(['tail']);
    await t.pass(250);
    expect(seen(sink)).toEqual(['tail', 'change 1']);
  });

  test('costs no query while nothing happens, besides one for all organizations at each tick', async () => {
    const t = make();
    await Promise.all(Array.from({ length: 100 }, () => t.watch(device)));
    await t.pass(250);
    const before = { ...t.db.reads };
    for (let i = 0; i < 10; i += 1) await t.pass(250);
    expect(t.db.reads).toEqual({ ...before, heads: before.heads + 10 });
  });

  test('goes on after a hole in the log, from the state', async () => {
    const t = make();
    const sink = await t.watch(device);
    const id = t.db.create('device');
    t.db.create('device');
    t.db.delete(id);
    t.db.cut = 2;
    await t.hint();
    expect(seen(sink)).toEqual(['tail', 'change 2', 'delete 3']);
    expect(t.logs.stats.resyncs).toBe(1);
  });

  test('survives a database that is away for a while', async () => {
    const t = make();
    const sink = await t.watch(device);
    t.db.down = true;
    t.db.create('device');
    await t.hint();
    await t.pass(250);
    expect(t.warnings.length).toBeGreaterThan(0);
    t.db.down = false;
    await t.pass(250);
    expect(seen(sink)).toEqual(['tail', 'change 1']);
  });

  test('that waited for a listing when the database went away gets it when it is back', async () => {
    let down = false;
    class Flaky extends ModelDatabase {
      override async readState(...args: Parameters<ModelDatabase['readState']>) {
        if (down) throw new Error('gone');
        return super.readState(...args);
      }
    }
    const t = make({ db: new Flaky() });
    t.db.create('device');
    down = true;
    const sink = await t.watch(device);
    expect(seen(sink)).toEqual([]);
    down = false;
    await t.pass(250);
    expect(seen(sink)).toEqual(['change 1', 'tail']);
  });

  test('gets a heartbeat after silence, and none when it is busy', async () => {
    const t = make();
    const sink = await t.watch(device);
    await t.pass(14_000);
    expect(sink.body()).toBe('{"type":"tail"}\n');
    await t.pass(1_000);
    expect(sink.body()).toBe('{"type":"tail"}\n\n');
    t.db.create('device');
    await t.hint();
    await t.pass(14_000);
    expect(sink.body().split('\n\n')).toHaveLength(2);
  });
});

describe('models beside streams', () => {
  test('follow the same log: what another server wrote is read once, and what this one wrote not at all', async () => {
    const t = make();
    const models = new OrganizationModels({
      logs: t.logs,
      source: t.db,
      slices: processSlices(),
      monotonic: () => t.now,
      clock: () => t.now,
    });
    const id = t.db.create('device');
    const sink = await t.watch(device);
    const revisions = async () => [(await models.read(modelOrg)).revision, sink.received('device').at(-1)?.revision];
    await revisions();
    const { changes } = t.db.reads;
    t.db.update(id);
    await t.hint();
    expect(await revisions()).toEqual([2, 2]);
    expect(t.db.reads.changes).toBe(changes + 1);
    t.db.update(id);
    t.db.tell(2);
    await loopTurns();
    expect(await revisions()).toEqual([3, 3]);
    expect(t.db.reads.changes).toBe(changes + 1);
  });
});

describe('a resume', () => {
  test('from a revision in the ring sends the newest state of each resource changed since, and deletions', async () => {
    const t = make();
    const [a, b] = [t.db.create('device'), t.db.create('device')] as const;
    await t.watch(device);
    t.db.update(a);
    t.db.update(a);
    t.db.delete(b);
    await t.hint();
    const before = t.db.reads.state;
    expect(seen(await t.watch([{ kind: 'device', gt_revision: 2 }]))).toEqual(['change 4', 'delete 5', 'tail']);
    expect(t.db.reads.state).toBe(before);
    expect(t.hub.stats.ringHits).toBe(1);
  });

  test('from before the ring is served from state and tombstones, read once for a cohort', async () => {
    const t = make();
    const [a, b] = [t.db.create('device'), t.db.create('device')] as const;
    t.db.update(a);
    t.db.delete(b);
    const items = [{ kind: 'device', gt_revision: 1, at_tail: true }] as const;
    const sinks = await Promise.all(Array.from({ length: 50 }, () => t.watch(items)));
    for (const sink of sinks) expect(seen(sink)).toEqual(['change 3', 'delete 4']);
    expect(t.db.reads.state).toBe(1);
  });

  test('from before the ring tells of each group that left the view, wherever the listing is cut', async () => {
    const t = make({ db: new ModelDatabase({ padding: 8_000 }) });
    const ids = Array.from({ length: 40 }, () => t.db.create('security-groups', userOf(1)));
    for (const id of ids) t.db.apply(id, true);
    const from = t.db.head;
    // Each revision is the group for its owner, and its departure for the others.
    for (const id of ids) t.db.apply(id, false);
    const items = [{ kind: 'security-groups', gt_revision: from, at_tail: true }] as const;
    for (const [user, type] of [
      [1, 'change'],
      [2, 'delete'],
    ] as const) {
      const sink = await t.watch(items, { user: userOf(user) });
      const told = sink.received('security-groups').map((one) => `${one.type} ${one.revision}`);
      expect(told).toEqual(ids.map((_, index) => `${type} ${from + index + 1}`));
    }
  });

  test('from the head itself reads no state at all', async () => {
    const t = make();
    t.db.create('device');
    const sink = await t.watch([{ kind: 'device', gt_revision: 1, at_tail: true }]);
    expect(seen(sink)).toEqual([]);
    expect(t.db.reads.state).toBe(0);
  });

  test('from a revision above the head is gone, and so is one below the kept deletions', async () => {
    const t = make();
    t.db.create('device');
    t.db.create('device');
    expect(await t.open([{ kind: 'device', gt_revision: 3 }])).toBe('revision_gone');
    t.db.purged = 2;
    expect(await t.open([{ kind: 'device', gt_revision: 1 }])).toBe('revision_gone');
    expect(seen(await t.watch([{ kind: 'device', gt_revision: 2 }]))).toEqual(['tail']);
    expect(seen(await t.watch([{ kind: 'device', gt_revision: 0 }]))).toEqual(['change 1', 'change 2', 'tail']);
  });

  test('from a revision that another server has just written is not gone', async () => {
    const t = make();
    await t.watch(device);
    t.db.create('device');
    expect(seen(await t.watch([{ kind: 'device', gt_revision: 1 }]))).toEqual(['tail']);
  });

  test('of kinds at different revisions merges what follows, each event once', async () => {
    const t = make();
    t.db.create('device');
    t.db.create('security-groups');
    t.db.create('device');
    const items = [
      { kind: 'device', gt_revision: 1 },
      { kind: 'security-groups', gt_revision: 2 },
    ] as const;
    const sink = await t.watch(items);
    t.db.create('security-groups');
    t.db.create('device');
    await t.hint();
    expect(sink.received().map(({ kind, type, revision }) => `${kind} ${type} ${revision}`)).toEqual([
      'device change 3',
      'device tail 0',
      'security-groups tail 0',
      'security-groups change 4',
      'device change 5',
    ]);
  });
});

describe("a user's group", () => {
  test('is seen by others only while it is applied, and leaves their view with a bare deletion', async () => {
    const t = make();
    const id = t.db.create('security-groups', userOf(1));
    const items = [{ kind: 'security-groups' }] as const;
    const [own, other] = [await t.watch(items, { user: userOf(1) }), await t.watch(items, { user: userOf(2) })];
    t.db.update(id);
    await t.hint();
    t.db.apply(id, true);
    await t.hint();
    t.db.apply(id, false);
    await t.hint();
    t.db.update(id);
    t.db.delete(id);
    await t.hint();
    expect(seen(own)).toEqual(['change 1', 'tail', 'change 2', 'change 3', 'change 4', 'change 5', 'delete 6']);
    expect(seen(other)).toEqual(['tail', 'change 3', 'delete 4']);
    expect(other.lines().at(-1)).toBe(`{"type":"delete","value":{"id":"${id}","org_id":"${modelOrg}","revision":4}}`);
  });

  test('that left the view after N is told of by a resume from N, also from the state and after private edits', async () => {
    const t = make();
    const id = t.db.create('security-groups', userOf(1));
    t.db.apply(id, true);
    t.db.apply(id, false);
    t.db.update(id);
    const resume = async (revision: number, user: number): Promise<readonly string[]> =>
      seen(await t.watch([{ kind: 'security-groups', gt_revision: revision }], { user: userOf(user) }));
    expect(await resume(2, 2)).toEqual(['delete 3', 'tail']);
    expect(await resume(3, 2)).toEqual(['tail']);
    expect(await resume(2, 1)).toEqual(['change 4', 'tail']);
    t.db.delete(id);
    expect(await resume(2, 2)).toEqual(['delete 3', 'tail']);
    expect(await resume(1, 1)).toEqual(['delete 5', 'tail']);
  });

  test('deleted while applied is told of to everyone in full', async () => {
    const t = make();
    const id = t.db.create('security-groups', userOf(1));
    t.db.apply(id, true);
    t.db.delete(id);
    const sink = await t.watch([{ kind: 'security-groups', gt_revision: 1 }], { user: userOf(2) });
    expect(seen(sink)).toEqual(['delete 3', 'tail']);
    expect(sink.lines()[0]).toContain('"text"');
  });

  test('of another user never shows in a listing', async () => {
    const t = make();
    const id = t.db.create('security-groups', userOf(1));
    t.db.apply(id, true);
    t.db.apply(id, false);
    t.db.create('security-groups');
    const items = [{ kind: 'security-groups' }] as const;
    expect(seen(await t.watch(items, { user: userOf(2) }))).toEqual(['change 4', 'tail']);
    expect(seen(await t.watch(items, { user: userOf(1) }))).toEqual(['change 3', 'change 4', 'tail']);
  });
});
