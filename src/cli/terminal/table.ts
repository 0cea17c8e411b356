/** Owns tables: rows of text under heads, as wide as they need to be. */
import { widthOf } from './text.ts';
import { visible } from '../../node/visible.ts';
import type { Paint } from './screen.ts';

export interface Column<Row> {
  readonly head: string;
  readonly text: (row: Row) => string;
  readonly align?: 'right';
}

const pad = (text: string, width: number, align: 'right' | undefined): string => {
  const space = ' '.repeat(Math.max(0, width - widthOf(text)));
  return align === 'right' ? space + text : text + space;
};

/** Lines without trailing blanks; a cell never spans lines. */
export function renderTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], paint: Paint): string {
  const cells = rows.map((row) => columns.map(({ text }) => visible(text(row))));
  const widths = columns.map(({ head }, index) =>
    Math.max(widthOf(head), ...cells.map((line) => widthOf(line[index] ?? ''))),
  );
  const line = (texts: readonly string[]): string =>
    columns
      .map(({ align }, index) => pad(texts[index] ?? '', widths[index] ?? 0, align))
      .join('  ')
      .trimEnd();
  return [paint('bold', line(columns.map(({ head }) => head))), ...cells.map(line)].map((text) => `${text}\n`).join('');
}

/** A record as one line for each of its fields; a field with several lines has them below its name. */
export function renderFields(
  fields: readonly (readonly [name: string, value: string | readonly string[]])[],
  paint: Paint,
): string {
  const width = Math.max(0, ...fields.map(([name]) => widthOf(name)));
  return fields
    .map(([name, value]) => {
      const label = paint('bold', pad(name, width, undefined));
      const lines = typeof value === 'string' ? [visible(value)] : value.map(visible);
      const [first = '', ...rest] = lines;
      const indent = ' '.repeat(width + 2);
      return [`${label}  ${first}`.trimEnd(), ...rest.map((line) => indent + line)].map((line) => `${line}\n`).join('');
    })
    .join('');
}
