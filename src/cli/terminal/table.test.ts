/** Proves how tables fit a terminal: columns that are cut, and a last one that goes on below itself. */
import { expect, test } from 'vitest';
import { renderTable, type Column, type Layout } from './table.ts';

interface Row {
  readonly time: string;
  readonly what: string;
}
const columns: readonly Column<Row>[] = [
  { head: 'TIME', text: ({ time }) => time, whole: true },
  { head: 'WHAT', text: ({ what }) => what, wraps: true },
];
const rows = [
  { time: '2026-11-18T23:54:28Z', what: 'allowed tcp 5432 from label:application in database' },
  { time: '2026-11-18T23:54:29Z', what: 'x'.repeat(40) },
];
const layout = (width: number | undefined): Layout => ({ paint: (_, text) => text, wide: false, headers: true, width });

test('a last column that wraps goes on below itself, and nothing of it is lost', () => {
  expect(renderTable(columns, rows, layout(50))).toBe(
    [
      'TIME                  WHAT',
      '2026-11-18T23:54:28Z  allowed tcp 5432 from',
      '                      label:application in',
      '                      database',
      `2026-11-18T23:54:29Z  ${'x'.repeat(27)}`,
      `                      ${'x'.repeat(13)}`,
      '',
    ].join('\n'),
  );
});

test('on a narrow terminal it has lines of its own, and in a pipe it is one line', () => {
  const narrow = renderTable(columns, rows.slice(0, 1), layout(40));
  expect(narrow).toBe(
    ['TIME', '  WHAT', '2026-11-18T23:54:28Z', '  allowed tcp 5432 from', '  label:application in database', ''].join(
      '\n',
    ),
  );
  expect(renderTable(columns, rows.slice(0, 1), layout(undefined)).split('\n')).toHaveLength(3);
});

test('a column with room for one character or none takes one, and half of none', () => {
  const wide = [{ time: 'now', what: 'ab 漢🎉' }];
  for (const width of [1, 2, 3])
    expect(renderTable(columns, wide, { ...layout(width), headers: false })).toBe('now\n  a\n  b\n  漢\n  🎉\n');
});
