/** Proves that figures come out aligned and with honest precision. */
import { expect, it } from 'vitest';
import { figure, table } from './table.ts';

it('rounds to what can be vouched for', () => {
  expect([0.1234, 1.236, 12.34, 123.4, 123_456.7].map(figure)).toEqual(['0.12', '1.24', '12.3', '123', '123,457']);
});

it('aligns numbers to the right and words to the left, as Markdown', () => {
  expect(
    table(
      ['ranges', 'ms'],
      [
        ['ten', 1.5],
        ['a thousand', 150],
      ],
    ),
  ).toBe(
    ['| ranges     |   ms |', '|------------|-----:|', '| ten        | 1.50 |', '| a thousand |  150 |'].join('\n'),
  );
});
