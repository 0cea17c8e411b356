/** Owns the commands about policy files as texts: formatting them, and the schema for editors. */
import { writeFile } from 'node:fs/promises';
import { printable } from '../../policy/names/printable.ts';
import type { Session } from '../session/session.ts';
import { exitCodes, usageError } from '../terminal/exit.ts';
import { textsOf } from '../terminal/input-file.ts';
import { toJson } from '../terminal/output.ts';
import { policySchema } from './schema.ts';

export interface FormatOptions {
  readonly file?: readonly string[];
  readonly check?: boolean;
}

/** The order of fields in a policy file. */
export const fieldOrder = {
  groups: ['name', 'default', 'owner', 'id', 'description', 'guardrail', 'mode', 'applies_to', 'inbound', 'outbound'],
  devices: ['device', 'id', 'labels', 'groups'],
  tests: ['name', 'from', 'to', 'protocol', 'port', 'expect', 'note'],
} as const;

const isJson = (name: string): boolean => /\.json$/i.test(name);

/** The text in its form; throws a sentence where it cannot be read. */
async function formatted(name: string, text: string): Promise<string> {
  const { formatYaml } = await import('../terminal/format-yaml.ts');
  try {
    return isJson(name) ? `${JSON.stringify(JSON.parse(text), undefined, 2)}\n` : formatYaml(text, fieldOrder);
  } catch (error) {
    const [reason = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
    throw usageError(`cannot format ${name}: ${reason}`);
  }
}

export async function formatFiles(
  session: Session,
  given: readonly string[],
  { file = [], check }: FormatOptions,
): Promise<void> {
  const paths = [...file, ...given];
  if (paths.length === 0) throw usageError('no policy file given: name a file, a folder, or - for stdin');
  const texts = (await Promise.all(paths.map((path) => textsOf(path, session)))).flat();
  const read = await Promise.all(
    texts.map(async ([name, text]) => ({ name, text, after: await formatted(name, text) })),
  );
  if (check !== true && paths.includes('-')) {
    if (paths.length > 1) throw usageError('stdin cannot be formatted together with files');
    return session.terminal.out(read.map(({ after }) => after).join(''));
  }
  const others = read.filter(({ text, after }) => text !== after);
  if (check !== true) for (const { name, after } of others) await writeFile(name, after);
  const count = others.length === 1 ? '1 file' : `${others.length} files`;
  const names = others.map(({ name }) => name);
  await session.print({
    data: names,
    ids: names,
    table: () =>
      [
        ...names.map((name) => `${printable(name)}\n`),
        check === true && others.length === 0
          ? `Nothing to format in ${read.length === 1 ? '1 file' : `${read.length} files`}.\n`
          : `${count} of ${read.length} ${check === true ? 'not formatted' : 'changed'}.\n`,
      ].join(''),
  });
  if (check === true && others.length > 0) process.exitCode = exitCodes.failed;
  return undefined;
}

export const printSchema = (session: Session): Promise<void> =>
  session.print({ data: policySchema, ids: [policySchema.$id], table: () => toJson(policySchema, 2) });
