/** Proves that goals are judged the right way round and survive the way into the summary. */
import { expect, it } from 'vitest';
import { goalTable, leastStolen, readGoals, summary, type GatheredGoal, type Goal } from './goals.ts';

const quick: Goal = { what: 'quick', goal: 2, measured: 1, unit: 'ms' };
const slow: Goal = { what: 'slow', goal: 2, measured: 3, unit: 'ms', beside: 'floor 2.9 ms' };
const many: Goal = { what: 'many', goal: 2, measured: 3, unit: '/s', atLeast: true };
const few: Goal = { what: 'few', goal: 2, measured: 1, unit: '/s', atLeast: true };
const unknown: Goal = { what: 'unknown', goal: 2, measured: Number.NaN, unit: 'ms' };

const gathered = (goal: Goal, stolen = 0, part = ''): GatheredGoal => ({ ...goal, part, stolen });

const verdicts = (text: string): string[] =>
  text
    .split('\n')
    .slice(2)
    .map((line) => line.split('|').at(-3)?.trim() ?? '');

it('says of each goal whether it is met, and of one without a figure that it was not measured', () => {
  expect(verdicts(goalTable([quick, slow, many, few, unknown]))).toEqual(['yes', 'NO', 'yes', 'NO', 'not measured']);
});

it('reads back what was noted, a figure that is none included', () => {
  const goals = [gathered(slow, 0.1, 'many'), gathered(unknown)];
  expect(readGoals(goals.map((goal) => `${JSON.stringify(goal)}\n`).join(''))).toEqual(goals);
});

it('sums up all benchmarks in one table that names them and counts what is met', () => {
  const text = summary(
    new Map([
      ['watch', [gathered(quick), gathered(slow, 0.123)]],
      ['store', [gathered(many)]],
    ]),
  );
  expect(text).toContain('| watch     | 12.3 % | slow  | ≤ 2.00 ms | 3.00 ms  | NO  | floor 2.9 ms |');
  expect(text).toContain('| store     | 0.00 % | many ');
  expect(text).toContain('2 of 3 goals met.');
});

it('takes each part from the measurement in which the host took least, and never mixes two', () => {
  const first = [gathered(quick, 0.3, 'a'), gathered(slow, 0.4, 'a'), gathered(many, 0.01, 'b')];
  const second = [gathered(slow, 0.35, 'a'), gathered(few, 0.1, 'b')];
  expect(leastStolen([first, second])).toEqual([second[0], first[2]]);
  expect(leastStolen([second, first])).toEqual([second[0], first[2]]);
});
