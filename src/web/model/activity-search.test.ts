/** Proves that the activity is narrowed by person, device, group and day, and that a URL is read with care. */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../api/audit.ts';
import { beginOf, dayLimits, isInSearch, parseActivitySearch } from './activity.ts';

const at = new Date(2026, 10, 18, 23, 59).toISOString();
const entry = {
  at,
  user_id: 'ada',
  operation: 'updateDevice',
  subject_id: 'web-1',
  before: { security_groups: ['web'] },
  after: { security_groups: [] },
} as unknown as AuditEntry;

test.each([
  [{}, true],
  [{ by: 'ada' }, true],
  [{ by: 'kim' }, false],
  [{ device: 'web-1', by: 'ada' }, true],
  [{ device: 'web-2' }, false],
  [{ group: 'web' }, true],
  [{ group: 'db' }, false],
  [{ day: '2026-11-18' }, true],
  [{ day: '2026-11-19' }, false],
  [{ day: '2026-11-17' }, false],
])('%j matches: %j', (search, expected) => {
  expect(isInSearch(entry, search)).toBe(expected);
});

test('a day begins and ends at local midnight, and what is no date is left out of the URL', () => {
  const [from, to] = dayLimits('2026-11-18');
  expect([new Date(from).getHours(), new Date(to).getDate()]).toEqual([0, 19]);
  expect(parseActivitySearch({ day: 'yesterday', by: 'ada', q: '', other: 1 })).toEqual({ by: 'ada' });
});

test('a search for an id ends where it was made, and one of a day where the day begins', () => {
  expect(beginOf({ q: ' 0198C0DE-0000-7000-8000-0000564e23ea' })).toBe(0x0198_c0de_0000);
  expect(beginOf({ q: '00000000-0000-4000-8000-000000000001' })).toBeUndefined();
  expect(beginOf({ q: 'web' })).toBeUndefined();
  expect(beginOf({ day: '2026-11-18' })).toBe(dayLimits('2026-11-18')[0]);
});
