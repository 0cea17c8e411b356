/** Proves what pages say of trials: the time left, when the stream says that one has ended, and its name. */
import { expect, test } from 'vitest';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Trial } from '../../api/trial/trials.ts';
import { hasEnded, timeLeft, trialName, trialRecords, trialSignature, withoutTakenOut } from './trial-words.ts';

test.each([
  [0, '0:00'],
  [-5_000, '0:00'],
  [100, '0:01'],
  [102_000, '1:42'],
  [600_000, '10:00'],
  [3_723_000, '1:02:03'],
])('%d ms are %s', (milliseconds, text) => {
  expect(timeLeft(milliseconds)).toBe(text);
});

const groupOf = (id: string, trial?: object): SecurityGroup =>
  ({ id, group_name: `group ${id}`, trial }) as unknown as SecurityGroup;
const known = (...groups: readonly SecurityGroup[]) => ({
  groupById: new Map<string, SecurityGroup>(groups.map((group) => [group.id, group])),
  deviceById: new Map<string, Device>(),
});
const trial = { id: 't', security_groups: ['a', 'b'], devices: [] } as unknown as Trial;

test('a trial has ended when no record that the page sees is on it, and not while the page sees none', () => {
  expect(hasEnded(trial, known(groupOf('a', { id: 't' }), groupOf('b', { id: 't' })))).toBe(false);
  expect(hasEnded(trial, known(groupOf('a'), groupOf('b', { id: 't' })))).toBe(false);
  expect(hasEnded(trial, known(groupOf('a'), groupOf('b', { id: 'another' })))).toBe(true);
  expect(hasEnded(trial, known())).toBe(false);
});

test('its signature changes with its scope, and its name is that of its records', () => {
  const narrow = trialSignature([groupOf('a', { id: 't', scope: [{ labels: ['canary'] }] })]);
  const wide = trialSignature([groupOf('a', { id: 't' }), groupOf('b', { id: 't' })]);
  expect([narrow, wide]).toEqual(['t label:canary', 't ']);
  expect(trialName(trial, known(groupOf('a')))).toBe('group a, a group');
});

test('a record that was taken out since is no longer named, and one that the page does not see stays', () => {
  const now = known(groupOf('a'), groupOf('b', { id: trial.id }));
  const three = { ...trial, security_groups: ['a', 'b', 'hidden'], devices: [] } as unknown as Trial;
  const left = withoutTakenOut(three, now);
  expect(left.security_groups).toEqual(['b', 'hidden']);
  expect(trialRecords(left, now).groups.map(({ user_id }) => user_id)).toEqual([null, '']);
});
