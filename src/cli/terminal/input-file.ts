/** Owns the reading of YAML and JSON that a person hands over: files, folders of them, or stdin. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { usageError } from './exit.ts';
import type { Terminal } from './terminal.ts';

export interface InputDocument {
  /** File, and which document in it where there are several. */
  readonly where: string;
  readonly value: unknown;
}

export interface InputOptions {
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

const isInput = (name: string): boolean => /\.(ya?ml|json)$/i.test(name);

async function textsOf(
  path: string,
  { terminal, signal }: InputOptions,
): Promise<readonly (readonly [name: string, text: string])[]> {
  if (path === '-') return [['stdin', await terminal.input({ signal })]];
  try {
    if (!(await stat(path)).isDirectory()) return [[path, await readFile(path, 'utf8')]];
    const names = (await readdir(path)).filter(isInput).toSorted();
    return await Promise.all(
      names.map(async (name) => [join(path, name), await readFile(join(path, name), 'utf8')] as const),
    );
  } catch (error) {
    throw usageError(`cannot read ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Every document; empty ones are left out. JSON is YAML too. */
export async function readInput(path: string, options: InputOptions): Promise<readonly InputDocument[]> {
  const texts = await textsOf(path, options);
  const { readAllYaml } = await import('./yaml.ts');
  return texts.flatMap(([name, text]) => {
    const documents = readAllYaml(text);
    return documents.flatMap(({ value, fault }, index) => {
      const where = documents.length > 1 ? `${name} (document ${index + 1})` : name;
      if (fault !== undefined) throw usageError(`${where} is no YAML: ${fault}`);
      return value === null || value === undefined ? [] : [{ where, value }];
    });
  });
}

/** The one document that is expected. */
export async function readOneInput(path: string, options: InputOptions): Promise<InputDocument> {
  const [only, second] = await readInput(path, options);
  if (only === undefined) throw usageError(`${path === '-' ? 'stdin' : path} holds nothing`);
  if (second !== undefined) throw usageError(`${path} holds several documents; one is expected here`);
  return only;
}
