/** Proves the words for differences whose values are records: a person reads them, and no JSON. */
import { expect, test } from 'vitest';
import { parseUserId } from '../../policy/ids.ts';
import { deviceChanges, fieldLines } from './changes.ts';
import { coverageWords } from './observation.ts';

test('an isolation is told with its reason, its end and whom it still allows', () => {
  const isolated = {
    since: '2026-11-09T10:00:00Z',
    by: parseUserId('01a1ddc0-9c97-738b-af8b-619f0abce38f'),
    reason: 'break-in',
  };
  const until = '2026-11-09T12:00:00Z';
  const lines = (more: object) => deviceChanges({}, { isolated: { ...isolated, ...more } }, (id) => id);
  expect(lines({})).toEqual([['+', 'isolated (break-in)']]);
  expect(lines({ until, allow: [{ labels: ['forensics'] }, { all_devices: true }] })).toEqual([
    ['+', `isolated (break-in) until 2026-11-09 12:00 UTC, allowing label:forensics, all-devices`],
  ]);
});

test('a field that says nothing is not told, whichever way it says nothing', () => {
  expect(fieldLines({}, { group_description: '', labels: [], tunnel_ip: null })).toEqual([]);
  expect(fieldLines({ group_description: '' }, { group_description: 'of the shop' })).toEqual([
    ['+', 'description of the shop'],
  ]);
  expect(fieldLines({ group_description: 'of the shop' }, { group_description: '' })).toEqual([
    ['-', 'description of the shop'],
  ]);
});

test('what was not observed at all is said without shares of nothing', () => {
  const none = { devices: 1, device_days: 0, observed: 0, observed_refused: 0, not_recorded: 0 };
  expect(coverageWords(none)).toBe('Nothing was observed yet on the device that would have the group.');
  expect(coverageWords({ ...none, devices: 3 })).toBe(
    'Nothing was observed yet on the 3 devices that would have the group.',
  );
  expect(coverageWords({ ...none, device_days: 2, observed_refused: 0.5 })).toMatch(
    /^Admitted traffic was observed in/,
  );
});
