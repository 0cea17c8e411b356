/** Owns tables and records for people: rows under headings, fitted to the terminal where there is one. */
import { compareNames } from '../../policy/names/compare-names.ts';
import { cutTo, widthOf } from './text.ts';
import { printable } from '../../policy/names/printable.ts';
import { shortId } from '../../client/words/short-id.ts';
import type { Paint } from './screen.ts';

export interface Column<Row> {
  readonly head: string;
  readonly text: (row: Row) => string;
  readonly align?: 'right';
  /** Only in a wide table. */
  readonly wide?: true;
  /** Never cut short: half of it would be of no use. */
  readonly whole?: true;
  /** Of the last column: what does not fit goes on in the next lines, below itself. */
  readonly wraps?: true;
}

/** How an answer is laid out for the person who reads it. */
export interface Layout {
  readonly paint: Paint;
  /** Every column, ids in full, nothing cut. */
  readonly wide: boolean;
  readonly headers: boolean;
  /** How much a line may take; none in a pipe, where nothing is cut. */
  readonly width: number | undefined;
}

/** Short in a table that has to fit, in full in a wide one. */
export const idColumn = <Row>(head: string, idOf: (row: Row) => string, { wide }: Layout): Column<Row> => ({
  head,
  text: (row) => (wide ? idOf(row) : shortId(idOf(row))),
  whole: true,
});

export const sortByName = <T>(things: readonly T[], nameOf: (thing: T) => string): readonly T[] =>
  things.toSorted((a, b) => compareNames(nameOf(a), nameOf(b)));

const pad = (text: string, width: number, align: 'right' | undefined): string => {
  const space = ' '.repeat(Math.max(0, width - widthOf(text)));
  return align === 'right' ? space + text : text + space;
};

const gap = '  ';
/** A column that is cut keeps so much: less would tell nothing. */
const least = 6;

/** What each column may take so that a line fits: the widest give way first. */
function fit(wanted: readonly number[], canShrink: readonly boolean[], room: number | undefined): readonly number[] {
  const widths = [...wanted];
  if (room === undefined) return widths;
  const total = (): number => widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1));
  while (total() > room) {
    const widest = Math.max(0, ...widths.filter((width, index) => canShrink[index] === true && width > least));
    const at = widths.findIndex((width, index) => canShrink[index] === true && width === widest);
    if (at === -1) break;
    widths[at] = widest - 1;
  }
  return widths;
}

/** A column that wraps needs so much; with less, its text has lines of its own. */
const leastToWrap = 24;

/** The text in lines of so many columns, between words where that is possible. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && widthOf(line) + 1 + widthOf(word) > width) {
      lines.push(line);
      line = '';
    }
    let rest = word;
    while (widthOf(rest) > width) {
      // At least one character, also one that is wider than the column: the rest must get shorter.
      const part = cutTo(rest, width).slice(0, -1) || String.fromCodePoint(rest.codePointAt(0) ?? 0);
      if (part === rest) break;
      lines.push(part);
      rest = rest.slice(part.length);
    }
    line = line === '' ? rest : `${line} ${rest}`;
  }
  return [...lines, line];
}

/** Lines without trailing blanks. A cell spans lines only in a column that wraps. */
export function renderTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], layout: Layout): string {
  const { paint, wide, headers } = layout;
  const shown = columns.filter((column) => wide || column.wide !== true);
  const cells = rows.map((row) => shown.map(({ text }) => printable(text(row))));
  const wanted = shown.map(({ head }, index) =>
    cells.reduce((most, line) => Math.max(most, widthOf(line[index] ?? '')), headers ? widthOf(head) : 0),
  );
  const room = wide ? undefined : layout.width;
  const wraps = room !== undefined && shown.at(-1)?.wraps === true;
  const fixed = wanted.map((width, index) =>
    wraps && index === wanted.length - 1 ? Math.min(width, leastToWrap) : width,
  );
  const widths = fit(
    fixed,
    shown.map(({ whole }, index) => whole !== true && !(wraps && index === shown.length - 1)),
    room,
  );
  const cellsOf = (texts: readonly string[]): string =>
    texts
      .map((text, index) => {
        const width = widths[index] ?? 0;
        return pad(cutTo(text, width), width, shown[index]?.align);
      })
      .join(gap);
  const line = (texts: readonly string[]): string => {
    if (!wraps) return cellsOf(texts).trimEnd();
    const first = cellsOf(texts.slice(0, -1));
    const left = room - widthOf(first) - gap.length;
    const isBeside = left >= Math.min(wanted.at(-1) ?? 0, leastToWrap);
    const [begin, indent] = isBeside
      ? [`${first}${gap}`, ' '.repeat(widthOf(first) + gap.length)]
      : [`${first.trimEnd()}\n${gap}`, gap];
    return begin + wrapped(texts.at(-1) ?? '', isBeside ? left : Math.max(1, room - gap.length)).join(`\n${indent}`);
  };
  const head = headers ? [paint('bold', line(shown.map((column) => column.head)))] : [];
  return [...head, ...cells.map(line)].map((text) => `${text}\n`).join('');
}

/** The fields of a record by their names; a field may have several lines. */
export type Fields = readonly (readonly [name: string, value: string | readonly string[]])[];

/** A record as one line for each of its fields; a field with several lines has them below its name. */
export function renderFields(fields: Fields, { paint }: Pick<Layout, 'paint'>): string {
  const width = Math.max(0, ...fields.map(([name]) => widthOf(name)));
  return fields
    .map(([name, value]) => {
      const label = paint('bold', pad(name, width, undefined));
      const lines = typeof value === 'string' ? [printable(value)] : value.map(printable);
      const [first = '', ...rest] = lines;
      const indent = ' '.repeat(width + 2);
      return [`${label}  ${first}`.trimEnd(), ...rest.map((line) => indent + line)].map((line) => `${line}\n`).join('');
    })
    .join('');
}
