/** Owns the agent's log: one line per event, readable by people and by the journal. */

import { printable } from '../../policy/names/printable.ts';

export type LogLevel = 'error' | 'warn' | 'info' | 'debug';
export type Fields = Readonly<Record<string, string | number | boolean | undefined>>;
export type Log = (level: LogLevel, message: string, fields?: Fields) => void;

/** The journal's priorities, as a service's output may carry them in front of a line. */
const priorities: { readonly [L in LogLevel]: number } = { error: 3, warn: 4, info: 6, debug: 7 };

const value = (field: string | number | boolean): string => {
  const text = String(field);
  // A line stays a line, and a field a field, whatever is in it.
  return /^[\w.:/@,+-]+$/.test(text) ? text : printable(JSON.stringify(text));
};

export function printLine(message: string, fields: Fields = {}): string {
  const pairs = Object.entries(fields).flatMap(([key, field]) =>
    field === undefined ? [] : [`${key}=${value(field)}`],
  );
  return [printable(message), ...pairs].join(' ');
}

export interface LineLogOptions {
  readonly write: (line: string) => void;
  /** Under a journal, lines carry a priority; on a terminal, a word. */
  readonly journal: boolean;
  /** Lines below this level are left out. */
  readonly least: LogLevel;
}

export const lineLog =
  ({ write, journal, least }: LineLogOptions): Log =>
  (level, message, fields) => {
    if (priorities[level] > priorities[least]) return;
    const head = journal ? `<${priorities[level]}>` : `${level}: `;
    write(`${head}${printLine(message, fields)}\n`);
  };
