/** Owns the log format for a terminal: one short line for each entry, and requests only in verbose mode. */
import type { DestinationStream } from 'pino';
import { printable } from '../../../policy/names/printable.ts';
import { isObject } from '../../../policy/json.ts';

export interface TerminalLogOptions {
  readonly write: (text: string) => void;
  /** Also show requests, and where an error happened. */
  readonly verbose: boolean;
}

const two = (number: number): string => String(number).padStart(2, '0');

function clockTime(time: unknown): string {
  const at = new Date(typeof time === 'string' ? time : Number.NaN);
  return Number.isNaN(at.getTime()) ? '--:--:--' : [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':');
}

const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? printable(String(value)) : '';

/** `10:15:02 warn  a database connection was lost: terminating connection`. */
function lineOf(entry: Readonly<Record<string, unknown>>, verbose: boolean): string | undefined {
  const { time, level, msg, err } = entry;
  if (msg === 'request') {
    if (!verbose) return undefined;
    const { method, path, status, ms } = entry;
    return `${clockTime(time)} ${[method, path, status].map(textOf).join(' ')} ${textOf(ms)} ms\n`;
  }
  const why = isObject(err) ? textOf(err['message']) : '';
  const stack = verbose && isObject(err) && typeof err['stack'] === 'string' ? err['stack'].split('\n').slice(1) : [];
  const head = `${clockTime(time)} ${textOf(level).padEnd(5)} ${textOf(msg)}${why === '' || why === textOf(msg) ? '' : `: ${why}`}`;
  return [head, ...stack.map(printable)].map((line) => `${line}\n`).join('');
}

export const terminalLog = ({ write, verbose }: TerminalLogOptions): DestinationStream => ({
  write: (json) => {
    const entry: unknown = JSON.parse(json);
    const line = isObject(entry) ? lineOf(entry, verbose) : undefined;
    if (line !== undefined) write(line);
  },
});
