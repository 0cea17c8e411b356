/** Proves that a change that is too large for one change set is split so that no record is lost and each part can be written. */
import { expect, it } from 'vitest';
import { limits } from '../api/limits.ts';
import { changeParts } from './change-parts.ts';
import { groupId, deviceId } from './records.fixture.ts';

it('a change that fits stays one', () => {
  const change = { devices: [{ id: deviceId(1), labels: ['a'] }], delete: [groupId(1)], policy_tests: [] };
  expect(changeParts(change)).toEqual([change]);
  expect(changeParts({ policy_tests: [] })).toEqual([{ policy_tests: [] }]);
});

it('more records are split in their order, groups first and deletions last, and tests go with the last part', () => {
  const most = limits.changeSetRecords;
  const security_groups = Array.from({ length: most }, (_, n) => ({ group_name: `g${n}` }));
  const devices = Array.from({ length: most - 1 }, (_, n) => ({ id: deviceId(n), labels: ['a'] }));
  const gone = [groupId(1), groupId(2)];
  const parts = changeParts({ security_groups, devices, delete: gone, policy_tests: [], policy_tests_revision: 3 });
  expect(parts).toEqual([
    { security_groups },
    { devices, delete: [groupId(1)] },
    { delete: [groupId(2)], policy_tests: [], policy_tests_revision: 3 },
  ]);
});

it('records that have too many bytes for one request are split as well', () => {
  const group_description = 'x'.repeat(limits.body / 3);
  const security_groups = [1, 2, 3].map((n) => ({ group_name: `g${n}`, group_description }));
  expect(changeParts({ security_groups }).map((part) => part.security_groups?.length)).toEqual([1, 1, 1]);
});
