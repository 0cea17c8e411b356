/** Owns the forms in which an answer is printed: a table for people, JSON and YAML for programs, bare ids for pipes. */
import type { Terminal } from './terminal.ts';
import { visible, visibleJson } from '../../node/visible.ts';
import type { Paint } from './screen.ts';

export const outputs = ['table', 'json', 'yaml'] as const;
export type Output = (typeof outputs)[number];

/** One answer in all its forms. */
export interface Answer {
  /** What JSON and YAML show: the records as the server tells them. */
  readonly data: unknown;
  /** What `--quiet` prints, one a line. */
  readonly ids: readonly string[];
  /** What a person sees: a sentence, or lines. */
  readonly table: string | ((paint: Paint) => string);
}

export interface Form {
  readonly output: Output;
  readonly quiet: boolean;
}

export async function print(terminal: Terminal, { output, quiet }: Form, answer: Answer): Promise<void> {
  terminal.out(await render(output, quiet, answer, terminal.paint));
}

export const toJson = (data: unknown, indent?: number): string =>
  `${visibleJson(JSON.stringify(data, undefined, indent))}\n`;

export async function toYaml(data: unknown): Promise<string> {
  const { writeYaml } = await import('./yaml.ts');
  return writeYaml(data);
}

async function render(output: Output, quiet: boolean, answer: Answer, paint: Paint): Promise<string> {
  if (quiet) return answer.ids.map((id) => `${id}\n`).join('');
  switch (output) {
    case 'json':
      return toJson(answer.data, 2);
    case 'yaml':
      return toYaml(answer.data);
    case 'table':
      return typeof answer.table === 'string' ? `${visible(answer.table)}\n` : answer.table(paint);
    default:
      return output satisfies never;
  }
}
