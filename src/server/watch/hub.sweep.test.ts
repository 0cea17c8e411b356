/** Proves the hub's rules on the shared clock of all streams: which streams a sweep checks, and that it misses none. */
import { expect, test, vi } from 'vitest';
import { device, hubMaker } from './hub.fixture.ts';
import { Stream } from './stream.ts';

const make = hubMaker();

test('a sweep reads nothing of the streams that keep up and for which no time has come', async () => {
  const t = make();
  for (let i = 0; i < 5; i += 1) await t.watch(device);
  t.now += 1_000;
  const looks = vi.spyOn(Stream.prototype, 'state', 'get');
  try {
    expect(t.hub.sweep()).toBe(true);
    expect(looks).not.toHaveBeenCalled();
    t.now += 15_000;
    expect(t.hub.sweep()).toBe(true);
    expect(looks).toHaveBeenCalled();
    looks.mockClear();
    t.now += 1_000;
    expect(t.hub.sweep()).toBe(true);
    expect(looks).not.toHaveBeenCalled();
  } finally {
    looks.mockRestore();
  }
  expect(t.hub.stats.heartbeats).toBe(5);
});

test('a stream that stays silent gets a heartbeat as often as it was silent for long, and no more', async () => {
  const t = make();
  await t.watch(device);
  for (let i = 0; i < 60; i += 1) await t.pass(500);
  expect(t.hub.stats.heartbeats).toBe(2);
});

test('a stream that took the place of one that left ends when its own credential does, and is silent by its own clock', async () => {
  const t = make();
  const first = await t.watch(device, { expiresAt: t.now + 60_000 });
  await t.watch(device, { expiresAt: t.now + 60_000 });
  t.now += 5_000;
  const last = await t.watch(device, { expiresAt: t.now + 20_000 });
  first.close();
  await t.pass(14_000);
  expect(t.hub.stats.heartbeats).toBe(1);
  await t.pass(1_000);
  expect(t.hub.stats.heartbeats).toBe(2);
  await t.pass(4_999);
  expect(last.clean).toBe(false);
  await t.pass(1);
  expect(last.clean).toBe(true);
});

test('a stream whose credential has ended is ended by the sweep that began after that, though it moves from list to list meanwhile', async () => {
  const t = make({ settings: { slice: 1 } });
  const expiresAt = t.now + 1_000;
  const blocked = await t.watch(device, { expiresAt });
  const flushed = await t.watch(device, { expiresAt });
  const live = await t.watch(device, { expiresAt });
  blocked.full = true;
  flushed.full = true;
  t.db.create('device');
  await t.hint();
  t.now += 1_000;
  expect(t.hub.sweep()).toBe(false);
  flushed.drain();
  live.full = true;
  t.db.create('device');
  await t.hint();
  while (!t.hub.sweep());
  expect([blocked.ended, flushed.ended, live.ended]).toEqual([true, true, true]);
});

test('a stream that closes before a sweep comes to it is left alone', async () => {
  const t = make({ settings: { slice: 1 } });
  const expiresAt = t.now + 1_000;
  const [first, second] = [await t.watch(device, { expiresAt }), await t.watch(device, { expiresAt })];
  t.now += 1_000;
  expect(t.hub.sweep()).toBe(false);
  const other = first.ended ? second : first;
  other.close();
  while (!t.hub.sweep());
  expect([other.ended, other.destroyed]).toEqual([false, false]);
  expect(t.hub.stats.endings.get('left')).toBe(1);
});
