/** Proves that two shares of observed time side by side do not go without an explanation. */
import { expect, test } from 'vitest';
import type { GroupUsage, RuleUsage } from '../../api/usage/rule-usage.ts';
import { observedWords, shareNote, usageSummary } from './usage.ts';

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

test('traffic that was seen was observed, if only for a moment', () => {
  expect([observedWords(0, true), observedWords(0, false), observedWords(0.001, true)]).toEqual([
    'under 1 %',
    '0 %',
    '1 %',
  ]);
  const rules: RuleUsage[] = [{ ...rule(0), state: 'used', packets: 1 }, rule(0)];
  expect(
    usageSummary({
      group_id: 'g',
      since: '',
      until: '',
      not_recorded: 0,
      observed: 0,
      devices: 1,
      rules,
    } as unknown as GroupUsage),
  ).toBe('1 used, 1 unknown; under 1 % of the time of 1 device observed');
});
