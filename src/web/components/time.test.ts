/** Proves how times are worded. */
import { expect, test } from 'vitest';
import { ago } from './page.tsx';

const [second, minute, hour, day] = [1_000, 60_000, 3_600_000, 86_400_000];

test('a moment is told by the largest unit that fits, before and after now', () => {
  const told = (distance: number): readonly string[] => [ago(-distance, 0), ago(distance, 0)];
  expect(told(2 * second)).toEqual(['now', 'now']);
  expect(told(30 * second)).toEqual(['30 sec. ago', 'in 30 sec.']);
  expect(told(14 * minute)).toEqual(['14 min. ago', 'in 14 min.']);
  expect(told(5 * hour)).toEqual(['5 hr. ago', 'in 5 hr.']);
  expect(told(day)).toEqual(['yesterday', 'tomorrow']);
  expect(told(3 * day)).toEqual(['3 days ago', 'in 3 days']);
  expect(told(30 * day)).toEqual(['1 month ago', 'in 1 month']);
  expect(told(800 * day)).toEqual(['2 years ago', 'in 2 years']);
});
