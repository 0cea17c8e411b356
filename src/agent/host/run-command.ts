/** Owns short-lived helper programs: run to their end, with a bound on time and output. */
import { execFile } from 'node:child_process';
import { helperEnvironment } from '../../node/helper-environment.ts';

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type Run = (argv: readonly string[], input?: string) => Promise<CommandResult>;

/** Long enough for a busy machine, and no caller waits for ever. */
const timeout = 60_000;
const mostOutput = 256 * 1024 * 1024;

/** Thrown where a program cannot be started, or was stopped. A code other than 0 is an answer, no failure. */
export class CannotRun extends Error {
  readonly code = 'cannot_run';
}

/** Runs programs through this command line, such as one that enters a network namespace. */
export const commandRunner =
  (prefix: readonly string[]): Run =>
  (argv, input) =>
    new Promise((resolve, reject) => {
      const [command = '', ...args] = [...prefix, ...argv];
      const options = { env: helperEnvironment, timeout, maxBuffer: mostOutput };
      const child = execFile(command, args, options, (error, stdout, stderr) => {
        if (error === null) resolve({ code: 0, stdout, stderr });
        else if (typeof error.code === 'number') resolve({ code: error.code, stdout, stderr });
        else reject(new CannotRun(`${argv[0] ?? ''} cannot be run: ${error.message.slice(0, 300)}`, { cause: error }));
      });
      child.stdin?.on('error', () => {}); // A program may end without reading its input; its code tells the story.
      child.stdin?.end(input ?? '');
    });
