/** Owns the reading of a command line and its environment variables by a table of options. */
import { isOff } from './environment.ts';
import { closestWord } from '../client/words/closest-word.ts';

// An `import` of this module loads all that it exports: 1 MB of an agent's memory.
const { parseArgs } = process.getBuiltinModule('node:util');

/** One option, for any program that reads command lines. `read` throws an error whose message ends a sentence about the value. */
export interface OptionSpec {
  /** `--name <value>`, or `--name` alone; `--no-name` alone says that `name` is false. */
  readonly flags: string;
  readonly env: string;
  readonly help: string;
  readonly fallback?: string | number | boolean;
  readonly read?: (text: string) => unknown;
  /** It may be given several times: the values are joined by commas. */
  readonly joined?: true;
  /** The value is never printed. */
  readonly secret?: true;
}

export type OptionTable = Readonly<Record<string, OptionSpec>>;

/** Thrown where a command line or a variable is wrong: one line for a person. */
export class WrongCommandLine extends Error {
  readonly code = 'wrong_command_line';
}

interface Entry {
  readonly name: string;
  readonly spec: OptionSpec;
  /** Without its dashes. */
  readonly long: string;
  readonly takesValue: boolean;
  /** What a flag without a value says. */
  readonly says: boolean;
}

const entriesOf = (table: OptionTable): readonly Entry[] =>
  Object.entries(table).map(([name, spec]) => {
    const [long = '', value] = spec.flags.split(' ');
    return {
      name,
      spec,
      long: long.slice(2),
      takesValue: value !== undefined,
      says: !long.startsWith('--no-'),
    };
  });

const parserOptions = (entries: readonly Entry[]) =>
  Object.fromEntries(
    entries.map(({ long, takesValue, spec }) => [
      long,
      { type: takesValue ? ('string' as const) : ('boolean' as const), multiple: spec.joined === true },
    ]),
  );

/** The first word that is no option and no option's value, and whether help is asked for. */
export function outline(
  table: OptionTable,
  args: readonly string[],
): { readonly word?: string; readonly help: boolean } {
  const options = parserOptions(entriesOf(table));
  const { tokens } = parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true });
  const word = tokens.find(({ kind }) => kind === 'positional');
  const help = tokens.some((token) => token.kind === 'option' && ['help', 'h'].includes(token.name));
  return { help, ...(word?.kind === 'positional' && { word: word.value }) };
}

/**
 * The values that were given, by the names of the table: from the command line, else from a variable. An empty variable
 * says as little as an absent one; of an option twice the last counts. Throws `WrongCommandLine`.
 */
export function readCommandLine(
  table: OptionTable,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Readonly<Record<string, unknown>> {
  const entries = entriesOf(table);
  const given = parse(entries, args);
  const values: Record<string, unknown> = {};
  for (const entry of entries) {
    const { name, spec, long, takesValue, says } = entry;
    const variable = env[spec.env] ?? '';
    const value = given[long];
    const text = Array.isArray(value) ? value.join(',') : value;
    if (text !== undefined) values[name] = typeof text === 'string' ? valueOf(entry, text, '') : says;
    else if (variable !== '' && takesValue) values[name] = valueOf(entry, variable, ` from env '${spec.env}'`);
    else if (variable !== '' && !isOff(variable)) values[name] = says;
  }
  return values;
}

function parse(entries: readonly Entry[], args: readonly string[]): Readonly<Record<string, unknown>> {
  try {
    const { values } = parseArgs({ args: [...args], options: parserOptions(entries), strict: true });
    return values;
  } catch (error) {
    throw new WrongCommandLine(reasonFor(error, entries, args), { cause: error });
  }
}

function valueOf({ spec }: Entry, text: string, origin: string): unknown {
  try {
    return spec.read === undefined ? text : spec.read(text);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const shown = spec.secret === true ? '' : ` '${text}'`;
    throw new WrongCommandLine(`option '${spec.flags}' argument${shown}${origin} is invalid. ${message}`, {
      cause: error,
    });
  }
}

/** Node's reasons, in the words of the other commands. */
function reasonFor(error: unknown, entries: readonly Entry[], args: readonly string[]): string {
  const [message = '', code] = error instanceof Error ? [error.message, (error as NodeJS.ErrnoException).code] : [];
  const named = /'(-[^'\s=]*)/.exec(message)?.[1] ?? '';
  const spec = entries.find(({ long }) => `--${long}` === named)?.spec;
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const near = closestWord(
      named,
      entries.map(({ long }) => `--${long}`),
    );
    return `unknown option '${named}'${near === undefined ? '' : ` (Did you mean ${near}?)`}`;
  }
  if (code === 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL') return `unexpected argument '${outlineWord(entries, args)}'`;
  if (code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') {
    if (message.includes('does not take')) return `option '${named}' takes no value`;
    return `option '${spec?.flags ?? named}' argument missing`;
  }
  return message.split('\n')[0] ?? '';
}

const outlineWord = (entries: readonly Entry[], args: readonly string[]): string =>
  outline(Object.fromEntries(entries.map(({ name, spec }) => [name, spec])), args).word ?? '';
