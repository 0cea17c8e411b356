/** Proves that two shares of observed time side by side do not go without an explanation. */
import { expect, test } from 'vitest';
import type { RuleUsage } from '../../api/usage/rule-usage.ts';
import { shareNote } from './usage.ts';

const rule = (observed: number): RuleUsage => ({
  direction: 'inbound',
  rule: 0,
  rule_id: 'a',
  packets: 0,
  state: 'unknown',
  observed,
  since: '2026-11-18T10:00:00Z',
});

test('a rule that has another share than its group is explained, because its time begins later', () => {
  const note = shareNote({ observed: 0.15, rules: [rule(0.15), rule(0)] });
  expect(note).toContain('from the moment its group got it');
  expect(shareNote({ observed: 0.15, rules: [rule(0.15)] })).toBeUndefined();
  expect(shareNote({ observed: 0.15, rules: [] })).toBeUndefined();
});
