/** Owns the forms in which an answer is printed: a table for people, JSON and YAML for programs, bare ids for pipes. */
import type { Terminal } from './terminal.ts';
import type { Paint } from './text.ts';

export const outputs = ['table', 'json', 'yaml'] as const;
export type Output = (typeof outputs)[number];

/** One answer in all its forms. */
export interface Answer {
  /** What JSON and YAML show: the records as the server tells them. */
  readonly data: unknown;
  /** What `--quiet` prints, one a line. */
  readonly ids: readonly string[];
  /** What a person sees. */
  readonly table: (paint: Paint) => string;
}

export interface Form {
  readonly output: Output;
  readonly quiet: boolean;
}

export async function print(terminal: Terminal, { output, quiet }: Form, answer: Answer): Promise<void> {
  terminal.out(await render(output, quiet, answer, terminal.paint));
}

export async function toYaml(data: unknown): Promise<string> {
  const { writeYaml } = await import('./yaml.ts');
  return writeYaml(data);
}

async function render(output: Output, quiet: boolean, answer: Answer, paint: Paint): Promise<string> {
  if (quiet) return answer.ids.map((id) => `${id}\n`).join('');
  switch (output) {
    case 'json':
      return `${JSON.stringify(answer.data, undefined, 2)}\n`;
    case 'yaml':
      return toYaml(answer.data);
    case 'table':
      return answer.table(paint);
    default:
      return output satisfies never;
  }
}
