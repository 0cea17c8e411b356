/** Proves that ids ascend also when the clock goes back, and that they are UUIDs of version 7. */
import { randomFillSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { isUuid } from '../../../policy/ids.ts';
import { idMaker } from './uuid.ts';

test('ids ascend within a millisecond, across milliseconds, and when the clock steps back', () => {
  let time = Date.parse('2026-01-01T00:00:00Z');
  const next = idMaker({ clock: () => time, random: (bytes) => void randomFillSync(bytes) });
  const ids: string[] = [];
  for (const step of [0, 1, 0, -5000, 10_000]) {
    time += step;
    for (let index = 0; index < 6000; index += 1) ids.push(next());
  }
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.toSorted()).toEqual(ids);
  expect(ids.every((id) => isUuid(id) && id[14] === '7' && '89ab'.includes(id[19] ?? ''))).toBe(true);
});

test('an id tells its time', () => {
  const time = Date.parse('2026-02-03T04:05:06.789Z');
  const id = idMaker({ clock: () => time, random: (bytes) => void bytes.fill(0) })();
  expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBe(time);
});
