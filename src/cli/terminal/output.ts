/** Owns the forms in which an answer is printed: a table for people, JSON and YAML for programs, bare ids for pipes. */
import type { Terminal } from './terminal.ts';
import { printable, printableJson } from '../../node/printable.ts';
import type { Layout } from './table.ts';

export const outputs = ['table', 'wide', 'json', 'yaml'] as const;
export type Output = (typeof outputs)[number];

/** One answer in all its forms. */
export interface CommandOutput {
  /** What JSON and YAML show: the records as the server tells them. */
  readonly data: unknown;
  /** What `--quiet` prints, one a line. */
  readonly ids: readonly string[];
  /** What a person sees: a sentence, or lines. */
  readonly table: string | ((layout: Layout) => string);
}

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
