/** Owns the reading of YAML and JSON input: files, folders of files, or stdin. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { usageError } from './exit.ts';
import type { Terminal } from './terminal.ts';
import type { YamlPath } from './read-yaml.ts';

export interface InputDocument {
  readonly file: string;
  readonly value: unknown;
  /** The place of a value in the form of editors and compilers: `policy.yaml:12`. */
  readonly place: (path: YamlPath) => string;
}

/** What was read, and what cannot be read: the rest may hold problems too. */
export interface Input {
  readonly documents: readonly InputDocument[];
  readonly faults: readonly string[];
}

export interface InputOptions {
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

const isInput = (name: string): boolean => /\.(ya?ml|json)$/i.test(name);

/** A file that the user named and that cannot be read. */
export function unreadable(path: string, error: unknown): Error {
  const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
  const why = isMissing ? 'there is no such file' : error instanceof Error ? error.message : String(error);
  return usageError(`cannot read ${path}: ${why}`);
}

/** The files that a path means, with their texts. */
export async function textsOf(
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
    throw unreadable(path, error);
  }
}

/** Every document; empty ones are left out. JSON is YAML too. */
export async function readInput(path: string, options: InputOptions): Promise<Input> {
  const texts = await textsOf(path, options);
  const { readAllYaml } = await import('./read-yaml.ts');
  const read = texts.flatMap(([file, text]) => readAllYaml(text).map((document) => ({ file, ...document })));
  return {
    documents: read
      .filter(({ value }) => value !== null && value !== undefined)
      .map(({ file, value, lineOf }) => ({ file, value, place: (at) => `${file}:${lineOf(at)}` })),
    faults: read.flatMap(({ file, faults }) =>
      faults.map(({ line, message }) => `${file}:${line}: not valid YAML: ${message}`),
    ),
  };
}

/** The one document that is expected. */
export async function readOneInput(path: string, options: InputOptions): Promise<InputDocument> {
  const { documents, faults } = await readInput(path, options);
  if (faults.length > 0) throw usageError('the file cannot be read:', faults);
  const [only, second] = documents;
  if (only === undefined) throw usageError(`${path === '-' ? 'stdin' : path} is empty`);
  if (second !== undefined) throw usageError(`${path} contains several documents; this command expects one`);
  return only;
}
