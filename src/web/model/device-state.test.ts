/** Proves the answer to "is it in force?": what a device needs, beside what its agent reported. */
import { expect, test } from 'vitest';
import type { Device, DeviceStatus } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { device as record, group } from '../../client/records.fixture.ts';
import { deviceStateOf, countDeviceStates, neededRevision } from './device-state.ts';

const device = (number: number, revision: number, groups: readonly SecurityGroup[] = []): Device =>
  record(number, revision, groups.length === 0 ? {} : { security_groups: groups.map(({ id }) => id) });

const now = Date.parse('2026-01-01T12:00:00Z');
const report = (status: DeviceStatus['status'], secondsAgo = 5): DeviceStatus => ({
  device_id: device(1, 1).id,
  reported_at: new Date(now - secondsAgo * 1_000).toISOString(),
  status,
});
const [web, ops, fallback] = [group(1, 20), group(2, 9), group(3, 15)];
const groups = [web, ops, fallback];
const snapshot = { groups, groupById: new Map(groups.map((one) => [one.id, one])), defaultGroup: fallback };

test('a device needs the newest revision of itself and of the groups that apply to it', () => {
  expect(neededRevision(device(1, 5, [web, ops]), snapshot)).toBe(20);
  expect(neededRevision(device(1, 5, [ops]), snapshot)).toBe(9);
  expect(neededRevision(device(1, 30, [ops]), snapshot)).toBe(30);
  expect(neededRevision(device(1, 5), snapshot)).toBe(15);
});

test('groups that apply by label count, and take the place of the default group; guardrails do not', () => {
  const labelled = { ...device(1, 5), labels: ['db'] };
  const byLabel = { ...group(4, 40), applies_to: [{ labels: ['db'] }] };
  const guardrail = { ...group(5, 12), applies_to: [{ all_devices: true as const }], guardrail: 'forbid' as const };
  expect(neededRevision(labelled, { ...snapshot, groups: [...groups, { ...byLabel, revision: 10 }] })).toBe(10);
  expect(neededRevision(device(1, 5), { ...snapshot, groups: [...groups, byLabel] })).toBe(15);
  expect(neededRevision(labelled, { ...snapshot, groups: [...groups, guardrail] })).toBe(15);
});

test.each([
  ['applied', report({ state: 'applied', revision: 20 })],
  ['applied', report({ state: 'applied' })],
  ['behind', report({ state: 'applied', revision: 19 })],
  ['failed', report({ state: 'failed', revision: 19 })],
  ['starting', report({ state: 'starting' })],
  ['silent', report({ state: 'applied', revision: 20 }, 3_600)],
  ['unseen', undefined],
] as const)('%s is told from %j', (expected, status) => {
  expect(deviceStateOf(device(1, 5, [web]), status, snapshot, now)).toBe(expected);
});

test('a fleet is counted by where its devices stand', () => {
  const [one, two] = [device(1, 5, [web]), device(2, 5, [web])];
  const statuses = new Map([[one.id as string, report({ state: 'applied', revision: 21 })]]);
  const counts = countDeviceStates([one, two], statuses, snapshot, now);
  expect(counts).toEqual({ applied: 1, unseen: 1, behind: 0, failed: 0, starting: 0, silent: 0 });
});
