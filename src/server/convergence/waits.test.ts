/**
 * Proves that all waiting requests of an organization share its looks, and that a wait ends with its time limit, its
 * revision or its connection.
 */
import { expect, test, vi } from 'vitest';
import { parseDeviceId, type DeviceId } from '../../policy/ids.ts';
import { StoreError } from '../problems.ts';
import { OrganizationWaits } from './waits.ts';

const idOf = (number: number): DeviceId => parseDeviceId(`00000000-0000-4000-8000-${String(number).padStart(12, '0')}`);

/** An organization with this many devices, each in force up to a revision that the test sets. */
function organization(devices: number) {
  const upTo = new Map(Array.from({ length: devices }, (_, index) => [idOf(index), 0]));
  const asked: { revision: number; devices: readonly DeviceId[] | undefined }[] = [];
  let looks = 0;
  const waits = new OrganizationWaits({
    monotonic: () => Date.now(),
    ask: (revision, named) => asked.push({ revision, devices: named }),
    refresh: () => Promise.resolve(),
    enforced: {
      look: () => {
        looks += 1;
        return Promise.resolve(new Map(upTo));
      },
    },
  });
  return { upTo, asked, waits, looks: () => looks };
}

const inSeconds = (seconds: number) => ({ until: Date.now() + seconds * 1_000 });

test('a thousand who wait, for a hundred revisions, cost no more looks than one', async () => {
  vi.useFakeTimers();
  try {
    const cost = async (waiters: number): Promise<number> => {
      const { waits, looks } = organization(50);
      const all = Array.from({ length: waiters }, (_, index) => waits.wait(1 + (index % 100), inSeconds(20)));
      await vi.advanceTimersByTimeAsync(21_000);
      await Promise.all(all);
      expect(waits.size).toBe(0);
      return looks();
    };
    const alone = await cost(1);
    expect(alone).toBeGreaterThan(10);
    expect(await cost(1_000)).toBeLessThanOrEqual(alone + 2);
  } finally {
    vi.useRealTimers();
  }
});

test('each is told when its revision is in force on every device, the others wait on', async () => {
  const { upTo, asked, waits } = organization(2);
  const ended: number[] = [];
  const waiting = [5, 7, 9].map((revision) => waits.wait(revision, inSeconds(60)).then(() => ended.push(revision)));
  for (const id of upTo.keys()) upTo.set(id, 7);
  waits.wake();
  await Promise.all(waiting.slice(0, 2));
  expect(ended).toEqual([5, 7]);
  expect(asked.at(-1)).toMatchObject({ revision: 9 });
  for (const id of upTo.keys()) upTo.set(id, 9);
  waits.wake();
  await Promise.all(waiting);
  expect(waits.size).toBe(0);
});

test('devices are asked again once none of them has answered for a while, and not while they do', async () => {
  vi.useFakeTimers();
  try {
    const { upTo, asked, waits } = organization(1_000);
    const waiting = waits.wait(1, inSeconds(60));
    await vi.advanceTimersByTimeAsync(100);
    expect(asked).toEqual([{ revision: 1, devices: undefined }]);
    for (const id of [...upTo.keys()].slice(0, 10)) {
      upTo.set(id, 1);
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(asked).toHaveLength(2);
    for (const id of [...upTo.keys()].slice(0, 995)) upTo.set(id, 1);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(asked).toHaveLength(3);
    expect(asked.at(-1)?.devices).toHaveLength(5);
    for (const id of upTo.keys()) upTo.set(id, 1);
    await vi.advanceTimersByTimeAsync(5_000);
    await waiting;
    expect(asked).toHaveLength(3);
  } finally {
    vi.useRealTimers();
  }
});

test('a wait ends with its connection, and with the last one nobody looks any longer', async () => {
  const { waits, looks } = organization(3);
  const gone = new AbortController();
  const waiting = waits.wait(1, { ...inSeconds(600), signal: gone.signal });
  await vi.waitUntil(() => looks() > 0, { timeout: 60_000 });
  gone.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  expect(waits.size).toBe(0);
  await expect(waits.wait(1, { ...inSeconds(600), signal: gone.signal })).rejects.toThrow('gone');
  expect(waits.size).toBe(0);
  const before = looks();
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(looks()).toBe(before);
});

test('a server that stops, or whose database is away, lets everybody go', async () => {
  const { waits } = organization(1);
  const waiting = waits.wait(1, inSeconds(600));
  waits.close();
  await expect(waiting).rejects.toThrow(StoreError);
  const away = new OrganizationWaits({
    monotonic: () => Date.now(),
    ask: () => {},
    refresh: () => Promise.resolve(),
    enforced: { look: () => Promise.reject(new Error('away')) },
  });
  await expect(away.wait(1, inSeconds(600))).rejects.toThrow('away');
  await expect(away.wait(1, inSeconds(600))).rejects.toThrow('away');
});
