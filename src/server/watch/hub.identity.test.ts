/** Proves the hub's rules for devices by identity, on a model database: what is sent and when, and that nothing else is sent. */
import { describe, expect, test } from 'vitest';
import { device, hubMaker, seen } from './hub.fixture.ts';

const make = hubMaker();

describe('a stream of devices by identity', () => {
  const byIdentity = [{ kind: 'device', view: 'identity' }] as const;

  test('lists each device at its last change of identity, and is sent no byte for changes of endpoints', async () => {
    const t = make();
    const [first, second] = [t.db.create('device'), t.db.create('device')];
    t.db.update(first, { endpointOnly: true });
    const [named, full] = [await t.watch(byIdentity), await t.watch(device)];
    expect(seen(named)).toEqual(['change 1', 'change 2', 'tail']);
    expect(seen(full)).toEqual(['change 2', 'change 3', 'tail']);
    expect(named.lines()[0]).toBe(`{"type":"change","value":{"id":"${first}","hostname":"host 1","revision":1}}`);
    const before = named.body();
    for (let i = 0; i < 1_000; i += 1) t.db.update(second, { endpointOnly: true });
    await t.hint();
    expect(named.body()).toBe(before);
    expect(seen(full).at(-1)).toBe(`change ${t.db.head}`);
    t.db.update(second);
    t.db.delete(first);
    await t.hint();
    expect(seen(named).slice(3)).toEqual([`change ${t.db.head - 1}`, `delete ${t.db.head}`]);
  });

  test('resumes after its own last revision with changes of identity only, from the ring and from the database alike', async () => {
    for (const ringBytes of [1_000_000, 0]) {
      const t = make({ settings: { ringBytes } });
      const [first, second, third] = [t.db.create('device'), t.db.create('device'), t.db.create('device')];
      for (let i = 0; i < 20; i += 1) t.db.update(first, { endpointOnly: true });
      t.db.update(second);
      const renamed = t.db.head;
      t.db.delete(third);
      t.db.update(second, { endpointOnly: true });
      const sink = await t.watch([{ kind: 'device', view: 'identity', gt_revision: 3 }]);
      expect(seen(sink)).toEqual([`change ${renamed}`, `delete ${renamed + 1}`, 'tail']);
    }
  });

  test('shares its bytes with all streams of that view, beside those of full ones', async () => {
    const t = make();
    const id = t.db.create('device');
    const sinks = await Promise.all([byIdentity, byIdentity, device, device].map((items) => t.watch(items)));
    t.db.update(id);
    await t.hint();
    expect(new Set(sinks.map((sink) => sink.sent.at(-1))).size).toBe(2);
  });
});
