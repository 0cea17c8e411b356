/** Owns the output formats: a table for people, JSON and YAML for programs, bare ids for pipes. */
import type { Terminal } from './terminal.ts';
import { printable, printableJson } from '../../policy/names/printable.ts';
import { renderFields, renderTable, sortByName, type Column, type Fields, type Layout } from './table.ts';

export const outputs = ['table', 'wide', 'json', 'yaml'] as const;
export type Output = (typeof outputs)[number];

/** One answer in all its forms. */
export interface CommandOutput {
  /** What JSON and YAML show: the records as the server sends them. */
  readonly data: unknown;
  /** What `--quiet` prints, one a line. */
  readonly ids: readonly string[];
  /** What a person sees: a sentence, or lines. */
  readonly table: string | ((layout: Layout) => string);
}

type TextKey<Row> = { [Key in keyof Row]-?: Row[Key] extends string ? Key : never }[keyof Row];

/** How a list is shown: its columns, the field that rows are sorted by for a person, and the field that is the id. */
export type ListForm<Row> = {
  /** What a person reads, instead of a head without rows, where the list is empty. */
  readonly none: string;
  readonly columns: (layout: Layout) => readonly Column<Row>[];
  readonly sortBy?: TextKey<Row>;
} & (Row extends { readonly id: string } ? { readonly id?: TextKey<Row> } : { readonly id: TextKey<Row> });

/** A list in all its forms. Programs get the records in the order of the server. */
export const listOutput = <Row>(rows: readonly Row[], { columns, sortBy, id }: ListForm<Row>): CommandOutput => ({
  data: rows,
  ids: rows.map((row) => String(row[id ?? ('id' as TextKey<Row>)])),
  table: (layout) =>
    renderTable(columns(layout), sortBy === undefined ? rows : sortByName(rows, (row) => String(row[sortBy])), layout),
});

/** What a person sees of one record: its fields, or a sentence about it. */
export type RecordForm = string | Fields | ((layout: Layout) => Fields);

/** One record in all its forms; `quiet` is its id, or the secret of something new. */
export const recordOutput = (data: object, form: RecordForm, quiet: string): CommandOutput => ({
  data,
  ids: [quiet],
  table:
    typeof form === 'string'
      ? form
      : (layout) => renderFields(typeof form === 'function' ? form(layout) : form, layout),
});

export interface Form {
  readonly output: Output;
  readonly quiet: boolean;
  readonly headers: boolean;
}

/** Whether a person reads the answer, and no program. */
export const isForPeople = ({ output, quiet }: Pick<Form, 'output' | 'quiet'>): boolean =>
  !quiet && (output === 'table' || output === 'wide');

export async function print(
  terminal: Terminal,
  { output, quiet, headers }: Form,
  answer: CommandOutput,
): Promise<void> {
  const layout: Layout = { paint: terminal.paint, wide: output === 'wide', headers, width: terminal.width };
  terminal.out(await render(output, quiet, answer, layout));
}

export const toJson = (data: unknown, indent?: number): string =>
  `${printableJson(JSON.stringify(data, undefined, indent))}\n`;

export async function toYaml(data: unknown): Promise<string> {
  const { writeYaml } = await import('./write-yaml.ts');
  return writeYaml(data);
}

async function render(output: Output, quiet: boolean, answer: CommandOutput, layout: Layout): Promise<string> {
  if (quiet) return answer.ids.map((id) => `${id}\n`).join('');
  switch (output) {
    case 'json':
      return toJson(answer.data, 2);
    case 'yaml':
      return toYaml(answer.data);
    case 'table':
    case 'wide':
      return typeof answer.table === 'string' ? `${printable(answer.table)}\n` : answer.table(layout);
    default:
      return output satisfies never;
  }
}
