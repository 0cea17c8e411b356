/** Owns processes that run many client commands: to begin a process for each took five times what the commands themselves take. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { mortal } from './mortal.ts';

export interface HostedCommand {
  /** The built program. */
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Where it is run. */
  readonly folder: string;
  readonly input: string;
}

export interface HostedOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const host = fileURLToPath(new URL('command-host.mjs', import.meta.url));

/** The idle hosts. A request while all are busy starts a new one, so that no command waits for another. */
const idle: ChildProcess[] = [];

function start(): ChildProcess {
  const child = spawn(...mortal(process.execPath, [host]), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  // Nothing is left to do when only hosts are left.
  child.unref();
  child.channel?.unref();
  return child;
}

export async function runHosted(command: HostedCommand): Promise<HostedOutcome> {
  const child = idle.pop() ?? start();
  const stop = new AbortController();
  const answered = once(child, 'message', { signal: stop.signal });
  const gone = once(child, 'exit', { signal: stop.signal }).then(() => {
    throw new Error(`the process that ran ${command.args.join(' ')} is gone`);
  });
  child.send(command);
  try {
    const [outcome] = (await Promise.race([answered, gone])) as [HostedOutcome];
    idle.push(child);
    return outcome;
  } finally {
    // Whichever of the two did not come is waited for no longer.
    for (const other of [answered, gone]) other.catch(() => undefined);
    stop.abort();
  }
}
