/** Owns the server as a process of its own: the real program on its own data directory, to be killed and started again. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from './eventually.ts';
import { mortal } from './mortal.ts';
import { isRunning } from './processes.ts';

export interface ServerProcess {
  readonly url: string;
  readonly pid: number;
  /** Everything it wrote so far. */
  output(): string;
  /** Kills it with this signal and waits until it is gone. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Started but not ready: why, in its own words. */
export class NotStarted extends Error {
  readonly output: string;
  readonly code: number | null;

  constructor(code: number | null, output: string) {
    super(`the server did not start (exit code ${code}):\n${output}`);
    this.name = 'NotStarted';
    this.code = code;
    this.output = output;
  }
}

const gone = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

/** Starts the bundled program's server on this directory and a free port, and waits until it says that it is ready. */
export async function startProcess(
  file: string,
  data: string,
  options: {
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    /** The most files that it may have open. */
    readonly openFiles?: number;
  } = {},
): Promise<ServerProcess> {
  const args = [file, 'server', '--data', data, '--listen', '127.0.0.1:0', ...(options.args ?? [])];
  const env = { PATH: process.env['PATH'] ?? '', HOME: data, RINGFENCE_WORKERS: '1', ...options.env };
  const { openFiles } = options;
  const command =
    openFiles === undefined
      ? mortal(process.execPath, args)
      : mortal('prlimit', [`--nofile=${openFiles}:${openFiles}`, process.execPath, ...args]);
  const child = spawn(...command, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const exited = once(child, 'exit');
  for (let waited = 0; ; waited += 10) {
    const url = /^ {2}API +(https?:\S+)\/api/m.exec(output)?.[1];
    if (url !== undefined) {
      return {
        url,
        pid: child.pid ?? Number.NaN,
        output: () => output,
        async end(signal) {
          if (!gone(child)) child.kill(signal);
          await exited;
        },
      };
    }
    if (gone(child) || waited > 120_000) {
      child.kill('SIGKILL');
      throw new NotStarted(child.exitCode, output);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The process id of the PostgreSQL that a server runs in its data directory; where one was killed, of the one that comes after it. */
export async function postgresOf(data: string): Promise<number> {
  const file = join(data, 'postgres', 'postmaster.pid');
  let pid = Number.NaN;
  await eventually(`PostgreSQL runs in ${data}`, async () => {
    pid = Number.parseInt(await readFile(file, 'utf8').catch(() => ''), 10);
    return isRunning(pid);
  });
  return pid;
}
