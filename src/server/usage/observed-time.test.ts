/** Proves that no time counts as observed that may not have been: the share that decides whether a rule may be called unused. */
import { expect, test } from 'vitest';
import { parseDeviceId } from '../../policy/ids.ts';
import type { AgentSettings } from '../../api/organization.ts';
import { observedAll, observedRefused, ObservedShare, type ObservedTraffic } from './observed-time.ts';

type Observe = AgentSettings['observe'];

const id = parseDeviceId('00000000-0000-4000-8000-000000000001');
const other = parseDeviceId('00000000-0000-4000-8000-000000000002');
const at = (text: string): number => Date.parse(text);
const until = at('2026-11-18T12:00:00Z');
const day = (date: string, all_seconds: number, refused_seconds = 0, secondsAgo = 0) => ({
  device_id: id,
  day: date,
  through: new Date(until - secondsAgo * 1_000).toISOString(),
  all_seconds,
  refused_seconds,
  not_recorded: 0,
});
const old = [{ id, createdAt: 0 }];
const share = (...given: Parameters<typeof shareOf>): number => shareOf(...given).value;
function shareOf(
  rows: readonly ReturnType<typeof day>[],
  from: string,
  devices = old,
  { observed = observedAll, observe = 'all' as const }: { observed?: ObservedTraffic; observe?: Observe } = {},
) {
  const sum = new ObservedShare({ from: at(from), until, observed }, { observe });
  for (const device of devices) sum.add(device, device.id === id ? rows : []);
  return sum;
}

test('whole days count, and half a day that was not observed is missing', () => {
  const rows = [day('2026-11-17', 86_400), day('2026-11-18', 43_200)];
  expect(share(rows, '2026-11-17T00:00:00Z')).toBe(1);
  expect(share(rows.slice(0, 1), '2026-11-17T00:00:00Z')).toBeCloseTo(24 / 36, 2);
});

test('of the day in which the window begins, what may have been before it does not count', () => {
  // Six hours were observed: they may all be before ten o'clock.
  expect(share([day('2026-11-18', 6 * 3_600)], '2026-11-18T10:00:00Z')).toBe(0);
  expect(shareOf([day('2026-11-18', 12 * 3_600 - 60)], '2026-11-18T10:00:00Z').isFull).toBe(true);
});

test('a device counts from when it was registered, and what may be reported yet is not missing', () => {
  const devices = [{ id, createdAt: at('2026-11-18T11:50:00Z') }];
  const of = (seconds: number, ago: number, observe: Observe = 'all'): number =>
    share([day('2026-11-18', seconds, 0, ago)], '2026-11-11T00:00:00Z', devices, { observe });
  expect(of(480, 120)).toBe(1);
  expect(of(420, 180)).toBe(1);
  expect(of(60, 180)).toBeCloseTo(0.4);
  expect(of(60, 540)).toBeCloseTo(0.4);
  // What was not observed before the last report will not be reported.
  expect(of(480, 0)).toBeCloseTo(0.8);
  expect(of(420, 60)).toBeCloseTo(0.8);
  // Reported of before it was registered.
  expect(of(3_600, 540)).toBeCloseTo(0.4);
  // Nobody records it any more.
  expect(of(480, 120, 'refused')).toBeCloseTo(0.8);
});

test('without any report, and without any device, nothing was observed', () => {
  const devices = [{ id, createdAt: until - 1_000 }];
  expect(share([], '2026-11-11T00:00:00Z', devices)).toBe(0);
  expect(share([], '2026-11-11T00:00:00Z', [])).toBe(0);
});

test('a second device that nobody observes halves the share; what is refused needs less to be observed', () => {
  const both = [...old, { id: other, createdAt: 0 }];
  const rows = [day('2026-11-18', 0, 43_200)];
  expect(share(rows, '2026-11-18T00:00:00Z', both)).toBe(0);
  expect(share(rows, '2026-11-18T00:00:00Z', both, { observed: observedRefused, observe: 'refused' })).toBe(0.5);
});

test('one device among hundreds that nobody observed leaves a gap, however small its share is', () => {
  const devices = Array.from({ length: 300 }, () => ({ id, createdAt: 0 }));
  const rows = [day('2026-11-18', 43_200)];
  const from = '2026-11-18T00:00:00Z';
  expect(shareOf(rows, from, devices).isFull).toBe(true);
  const sum = shareOf(rows, from, [...devices, { id: other, createdAt: 0 }]);
  expect(sum.value).toBeGreaterThan(0.99);
  expect(sum.isFull).toBe(false);
  expect(shareOf([], from, []).isFull).toBe(false);
});
