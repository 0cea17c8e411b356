/** Owns the two ends and the port of a connection as people type them: in a row, or by options. */
import { usageError } from '../terminal/exit.ts';

export interface ExplainOptions {
  readonly from?: string;
  readonly to?: string;
  readonly proto: string;
  readonly port?: string;
  readonly who?: boolean;
  readonly exitCode?: boolean;
}

export interface Asked {
  /** Absent with `--who`. */
  readonly from: string | undefined;
  readonly to: string;
  readonly proto: string;
  readonly port: string | undefined;
}

/** `app-1 db-1 5432`, or with `--who` `db-1 5432`; what the row leaves out may be an option, and nothing may be both. */
export function readAsked(row: readonly string[], options: ExplainOptions): Asked {
  const names = options.who === true ? (['to', 'port'] as const) : (['from', 'to', 'port'] as const);
  if (row.length > names.length) throw usageError(`too many arguments: give ${names.join(', ')}`);
  const given = new Map<string, string>();
  for (const [index, text] of row.entries()) {
    const name = names[index];
    if (name === undefined) continue;
    if (options[name] !== undefined) throw usageError(`\`${text}\` and --${name} say the same thing twice`);
    given.set(name, text);
  }
  const [from, to, port] = (['from', 'to', 'port'] as const).map((name) => given.get(name) ?? options[name]);
  if (options.who === true && options.from !== undefined) throw usageError('--who asks for every --from at once');
  if (to === undefined || (from === undefined && options.who !== true)) {
    throw usageError('say where it comes from and where it goes: `ringfence explain app-1 db-1 5432`');
  }
  return { from, to, proto: options.proto, port };
}
