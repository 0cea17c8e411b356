/** Proves what the pages make of a device's status. */
import { expect, test } from 'vitest';
import type { DeviceStatus } from '../../api/device.ts';
import { inForceWords, type InForce } from '../../api/enforcement/in-force.ts';
import { device } from '../../client/records.fixture.ts';
import { countDeviceStates, lackingChange, shortcomingOf, stateOf } from './device-state.ts';

const status = (number: number, in_force: InForce): DeviceStatus => ({
  device_id: device(number, 1).id,
  hostname: 'ci-1',
  in_force,
  online: in_force !== 'offline',
  last_seen_at: '2026-01-01T12:00:00.000Z',
});

test('the word is the one that the server says, and a device without a status was never seen', () => {
  for (const word of inForceWords) expect(stateOf(status(1, word))).toBe(word);
  expect(stateOf(undefined)).toBe('never_seen');
});

test('a fleet is counted by where its devices stand', () => {
  const devices = [1, 2, 3].map((number) => device(number, 1));
  const statuses = new Map([status(1, 'yes'), status(2, 'failed')].map((one) => [one.device_id as string, one]));
  expect(countDeviceStates(devices, statuses)).toEqual({
    ...Object.fromEntries(inForceWords.map((word) => [word, 0])),
    yes: 1,
    failed: 1,
    never_seen: 1,
  });
});

test('a device that is not up to date is named with the reason, one that is has none', () => {
  expect(shortcomingOf('ci-1', status(1, 'offline'), () => '14 min ago')).toBe(
    'ci-1 was last seen 14 min ago and lacks this change',
  );
  expect(shortcomingOf('ci-1', status(1, 'yes'), () => 'now')).toBeUndefined();
  for (const word of inForceWords.filter((one) => one !== 'yes')) {
    expect(shortcomingOf('ci-1', status(1, word), () => 'now')).toContain('ci-1');
  }
});

test('a device lacks a change that its receipt does not reflect, or whose rules are wrong, the most urgent first', () => {
  const devices = [1, 2, 3, 4, 5].map((number) => device(number, 1));
  const at = (number: number, word: InForce, revision: number): DeviceStatus => ({
    ...status(number, word),
    status: { state: 'applied', revision },
  });
  const statuses = new Map(
    [at(1, 'yes', 3), at(2, 'behind', 3), at(3, 'behind', 7), at(4, 'failed', 9)].map((one) => [
      one.device_id as string,
      one,
    ]),
  );
  const lacking = lackingChange({ revision: 7 }, devices, statuses).map(({ id }) => id);
  expect(lacking).toEqual([4, 2, 5].map((number) => device(number, 1).id));
});
