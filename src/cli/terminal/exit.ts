/** Owns how a command ends: its exit code, and the text on stderr. */
import { RingfenceError } from '../../client/error.ts';

export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  notAllowed: 4,
  conflict: 5,
  /** What was waited for did not come in time. */
  timeOver: 6,
  /** The code that a shell reports for a program that Ctrl-C ended. */
  interrupted: 130,
} as const;

export type ExitName = keyof typeof exitCodes;

/** A failure that the command line itself finds: one line, and what may follow it. */
export class CliError extends Error {
  readonly exit: ExitName;
  readonly details: readonly string[];

  constructor(exit: ExitName, message: string, details: readonly string[] = []) {
    super(message);
    this.name = 'CliError';
    this.exit = exit;
    this.details = details;
  }
}

export const usageError = (message: string, details: readonly string[] = []): CliError =>
  new CliError('usage', message, details);

const exitByStatus: ReadonlyMap<number | undefined, ExitName> = new Map<number | undefined, ExitName>([
  [401, 'notAllowed'],
  [403, 'notAllowed'],
  [404, 'notFound'],
  [409, 'conflict'],
  [412, 'conflict'],
  // The same mistake gets the same code, whether it is found here or by the server.
  [422, 'usage'],
]);

function exitOf(error: unknown): ExitName {
  if (error instanceof CliError) return error.exit;
  // Who or what is named and is not there, is not found, also where the server only reads it in a body.
  if (error instanceof RingfenceError && error.errors.some(({ code }) => code === 'unknown_user')) return 'notFound';
  return error instanceof RingfenceError ? (exitByStatus.get(error.status) ?? 'failed') : 'failed';
}

export interface CommandExit {
  readonly code: number;
  readonly lines: readonly string[];
}

/** The text and the exit code for a failure. An internal error keeps its stack for the bug report. */
export function commandExitOf(error: unknown, { debug }: { readonly debug: boolean }): CommandExit {
  // A credential that could not be had: why is in our own words.
  if (error instanceof RingfenceError && error.cause instanceof CliError) return commandExitOf(error.cause, { debug });
  const code = exitCodes[exitOf(error)];
  if (error instanceof CliError) return { code, lines: [error.message, ...error.details.map((line) => `  ${line}`)] };
  if (error instanceof RingfenceError) return { code, lines: describe(error) };
  const fault = error instanceof Error ? error : new Error(String(error));
  return { code, lines: debug && fault.stack !== undefined ? fault.stack.split('\n') : [fault.message] };
}

/** Whether the text has this name as a whole: `web-10` does not name `web-1`. */
function isNamedIn(text: string, name: string): boolean {
  for (let at = text.indexOf(name); at !== -1; at = text.indexOf(name, at + 1)) {
    const isBegun = at === 0 || !/[\w.-]$/.test(text.slice(0, at));
    if (isBegun && !/^(?:[\w-]|\.\w)/.test(text.slice(at + name.length))) return true;
  }
  return false;
}

/** Whether the text begins with the field, or there is none. */
const isNamedBy = (pointer: string, detail: string): boolean =>
  pointer === '' || detail.startsWith(`${pointer.slice(1)} `);

function describe(error: RingfenceError): readonly string[] {
  // The message of a single problem is the problem itself. Where it is in a list, its place says more.
  const isSaid = ({ pointer, detail }: (typeof error.errors)[number]): boolean =>
    detail === error.message && pointer.lastIndexOf('/') <= 0;
  const lines = error.errors
    .filter((problem) => !isSaid(problem))
    .map(({ pointer, detail }) => `  ${asOptions(isNamedBy(pointer, detail) ? detail : `${pointer}: ${detail}`)}`);
  if (error.moreErrors > 0) lines.push(`  and ${error.moreErrors} more`);
  for (const device of error.devices) if (!isNamedIn(error.message, device)) lines.push(`  device ${device}`);
  if (error.trialId !== undefined) {
    lines.push(
      `  more about it: ringfence trial show ${error.trialId}`,
      `  to end it: ringfence trial revert ${error.trialId}, or confirm`,
    );
  }
  const asked = error.requestId !== undefined && (error.status ?? 0) >= 500 ? ` (request ${error.requestId})` : '';
  return [`${messageOf(error)}${asked}`, ...lines];
}

function messageOf(error: RingfenceError): string {
  if (error.code === 'unreachable') return `cannot reach ${error.message}`;
  if (error.code === 'precondition_failed') {
    return 'someone else changed it in the meantime; nothing was written. Check it and try again.';
  }
  return asOptions(error.message);
}

/** The server names parameters of a request; here they are options: `repeat the request with ?force=true` is `use --force`. */
const asOptions = (text: string): string =>
  text.replaceAll(
    /(?:(?:repeat (?:the request|this)|continue) with )?\?([a-z_]+)=true(?: \(--[\w-]+ on the command line\))?/g,
    (_, name: string) => `use --${name.replaceAll('_', '-')}`,
  );
