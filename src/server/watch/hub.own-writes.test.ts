/**
 * Proves what the hub does with a transaction of its own process that passes on its log entries: it sends them without
 * a read, or reads them.
 */
import { describe, expect, test } from 'vitest';
import { device, hubMaker, seen, loopTurns } from './hub.fixture.ts';
import { ModelDatabase } from './model.fixture.ts';

const make = hubMaker();

/** While it is held, it answers late with what it saw in time. */
class SlowDatabase extends ModelDatabase {
  held = false;
  #waiting: (() => void)[] = [];

  goOn(): void {
    this.held = false;
    for (const go of this.#waiting.splice(0)) go();
  }

  override async readChanges(...given: Parameters<ModelDatabase['readChanges']>) {
    return this.#late(await super.readChanges(...given));
  }

  override async heads(...given: Parameters<ModelDatabase['heads']>) {
    return this.#late(await super.heads(...given));
  }

  async #late<T>(answer: T): Promise<T> {
    if (this.held) await new Promise<void>((go) => this.#waiting.push(go));
    return answer;
  }
}

describe('a transaction of this process', () => {
  test('is sent as it is told of, without a read, where nothing is missing before it', async () => {
    const t = make();
    const sink = await t.watch(device);
    const { changes } = t.db.reads;
    for (const through of [1, 3]) {
      const before = t.db.head;
      while (t.db.head < through) t.db.create('device');
      t.db.tell(before);
      await loopTurns();
    }
    expect(seen(sink)).toEqual(['tail', 'change 1', 'change 2', 'change 3']);
    expect(t.db.reads.changes).toBe(changes);
    const sent = sink.lines().slice(1);
    expect(sent).toEqual(t.db.log.map(({ json }) => `{"type":"change","value":${json}}`));
  });

  test('that changed nothing costs nothing', async () => {
    const t = make();
    await t.watch(device);
    const { changes } = t.db.reads;
    t.db.tell(t.db.head);
    await loopTurns();
    expect(t.db.reads.changes).toBe(changes);
  });

  test('that is told of again, or after the log was read, costs no read', async () => {
    const t = make();
    const sink = await t.watch(device);
    for (let i = 0; i < 3; i += 1) t.db.create('device');
    t.db.tell(0, 2);
    await t.hint();
    const { changes } = t.db.reads;
    t.db.tell(0, 2);
    t.db.tell(0, 1);
    t.db.tell(2, 3);
    await loopTurns();
    expect(t.db.reads.changes).toBe(changes);
    expect(seen(sink)).toEqual(['tail', 'change 1', 'change 2', 'change 3']);
  });

  test('waits for what another server wrote before it', async () => {
    const t = make();
    const sink = await t.watch(device);
    const id = t.db.create('device');
    t.db.update(id);
    t.db.tell(1);
    await loopTurns();
    expect(seen(sink)).toEqual(['tail', 'change 1', 'change 2']);
  });

  test('is sent once, also when it is told of late, or while the log is being read', async () => {
    const db = new SlowDatabase();
    const t = make({ db });
    const sink = await t.watch(device);
    const id = t.db.create('device');
    db.held = true;
    await t.hint();
    // The read has seen the first change, and is not back yet.
    t.db.tell(0);
    t.db.update(id);
    t.db.tell(1);
    await loopTurns();
    expect(seen(sink)).toEqual(['tail', 'change 1', 'change 2']);
    db.goOn();
    await loopTurns();
    t.db.tell(0, 1);
    t.db.tell(1, 2);
    t.db.update(id);
    t.db.tell(2);
    await loopTurns();
    expect(seen(sink)).toEqual(['tail', 'change 1', 'change 2', 'change 3']);
  });

  test('is sent while the way around a hole in the log is looked for, and the hole is forgotten', async () => {
    const db = new SlowDatabase();
    const t = make({ db });
    const sink = await t.watch(device);
    const id = t.db.create('device');
    t.db.cut = 1;
    t.db.hint();
    db.held = true;
    await loopTurns();
    t.db.tell(0);
    t.db.update(id);
    t.db.tell(1);
    await loopTurns();
    db.goOn();
    await loopTurns();
    expect(seen(sink)).toEqual(['tail', 'change 1', 'change 2']);
    expect(t.logs.stats.resyncs).toBe(0);
  });

  test('follows upon what a database holds that went back while its log was read, and nothing of the read is sent', async () => {
    const db = new SlowDatabase();
    const t = make({ db });
    const id = t.db.create('device');
    for (let i = 0; i < 5; i += 1) t.db.update(id);
    const before = await t.watch(device);
    db.held = true;
    t.db.update(id);
    await t.hint();
    // A backup was put in the database's place: that is known before the read comes back.
    t.db.log.length = 3;
    db.held = false;
    await t.hub.poll();
    expect(before.ended).toBe(true);
    const after = await t.watch(device);
    db.goOn();
    await loopTurns();
    t.db.update(id);
    t.db.tell(3);
    await loopTurns();
    expect(seen(after)).toEqual(['change 3', 'tail', 'change 4']);
  });
});
