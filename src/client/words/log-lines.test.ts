/** Proves which entries of the log share a line, and what such a line says. */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../api/audit.ts';
import type { Names } from './sentence.ts';
import { foldEntries, logLine } from './log-lines.ts';

const id = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
const entry = (operation: string, name: string, more: Partial<AuditEntry> = {}): AuditEntry =>
  ({
    operation,
    username: 'ada',
    credential: { kind: 'user_token' },
    subject_id: id(1),
    ...(name !== '' && { subject: { name } }),
    ...more,
  }) as AuditEntry;
const names: Names = { deviceOf: () => undefined, groupOf: () => undefined, otherOf: () => undefined };

/** The lines of entries that are given the oldest first, as the log prints them. */
function lines(...entries: readonly AuditEntry[]): readonly string[] {
  return foldEntries(entries.toReversed())
    .toReversed()
    .map((group) => logLine(group, names).sentence);
}

const inSet = { change_id: id(7) } as Partial<AuditEntry>;
const set = (operation = 'applyChanges'): AuditEntry => entry(operation, '', { ...inSet, subject_id: id(7) });

test('a change of several records is one line with what was created, changed and deleted', () => {
  const parts = [
    entry('createSecurityGroup', 'web', inSet),
    entry('updateSecurityGroup', 'database', inSet),
    entry('createSecurityGroup', 'app', inSet),
    entry('deleteDevice', 'old-1', inSet),
    entry('replacePolicyTests', '', inSet),
  ];
  expect(lines(...parts, set())).toEqual([
    'applied change 00000007: created web and app, deleted old-1, changed database, changed the policy tests',
  ]);
  expect(lines(entry('updateSecurityGroup', 'database', inSet), set('revertChangeSet'))).toEqual([
    'undid a change, as change 00000007: changed database',
  ]);
});

test('a change of one record says what became of it, and its id', () => {
  const before = { labels: [] };
  const one = entry('updateDevice', 'web-1', { ...inSet, before, after: { labels: ['db'] } });
  expect(lines(one, set())).toEqual(['put label db on web-1 (change 00000007)']);
});

test('a search that leaves the entry of the set out shows its parts, each by itself', () => {
  const parts = ['web', 'app'].map((name) => entry('createSecurityGroup', name, inSet));
  expect(lines(...parts)).toEqual(['created group web', 'created group app']);
  expect(lines(set())).toEqual(['applied change 00000007']);
});

test('devices that one person registers in a row are one line; those that enroll are told apart', () => {
  const many = Array.from({ length: 40 }, (_, n) => entry('createDevice', `web-${n}`));
  const enrolled = entry('createDevice', 'db-1', { credential: { kind: 'enrollment_key' } });
  expect(lines(...many, enrolled, entry('createDevice', 'x-1', { username: 'bob' }))).toEqual([
    'registered devices web-0, web-1, web-2, web-3, web-4 and 35 more',
    'enrolled device db-1',
    'registered device x-1',
  ]);
});
