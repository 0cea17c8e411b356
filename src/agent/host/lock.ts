/** Owns the locks that keep two agents off one state directory and out of one network namespace. */
import { spawn } from 'node:child_process';
import { mkdir, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { helperEnvironment } from './supervised-process.ts';

export interface FolderLock {
  release(): Promise<void>;
}

/** Thrown where the lock cannot be had. */
export class Locked extends Error {
  readonly code = 'locked';
}

const taken = 75;

export interface LockOptions {
  /** How often to look again: a holder that was killed needs a moment to go. */
  readonly attempts?: number;
  /** What to say where another has it. */
  readonly held?: string;
  /** Called when the lock is lost although nobody released it. */
  readonly onLost?: (why: string) => void;
}

/**
 * Takes the lock, or throws `Locked`. Node cannot lock files, so a small process holds the lock for us: on the directory itself,
 * which works on a full or read-only disk too. It ends with us, however we end, because our end closes its input; and the
 * kernel drops its lock. Unlike a socket's name, nobody without rights to the directory can take it away from us.
 */
export async function lockFolder(folder: string, options: LockOptions = {}): Promise<FolderLock> {
  const { attempts = 20, onLost, held = `another agent is running with ${folder}` } = options;
  for (let attempt = 1; ; attempt++) {
    const lock = await tryLock(folder, onLost);
    if (lock !== undefined) return lock;
    if (attempt >= attempts) throw new Locked(held);
    await sleep(50);
  }
}

/** Also the runtime directory of the unit, which may write nowhere else in /run. */
const runtime = '/run/ringfence-agent';

/**
 * Two agents in one network namespace would undo each other's rules for ever, whatever directories they keep. So a directory is
 * locked that bears the namespace's number. Undefined where this system gives no place for it: it is a guard against a
 * mistake, and no reason to leave a device without its rules.
 */
export async function lockNamespace(options: Pick<LockOptions, 'onLost'> = {}): Promise<FolderLock | undefined> {
  let folder: string;
  try {
    folder = `${runtime}/net-${(await stat('/proc/self/ns/net')).ino}`;
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch {
    return undefined;
  }
  return lockFolder(folder, { ...options, held: 'another agent is running in this network namespace' });
}

function tryLock(folder: string, onLost: LockOptions['onLost']): Promise<FolderLock | undefined> {
  // Ctrl-C and a unit's end reach it too; it goes when we have gone.
  const script = "trap '' INT TERM HUP; echo held && exec cat";
  const args = ['--nonblock', '--conflict-exit-code', String(taken), '--no-fork', folder, 'sh', '-c', script];
  const holder = spawn('flock', args, { stdio: ['pipe', 'pipe', 'pipe'], env: helperEnvironment });
  const parts = [holder, holder.stdin, holder.stdout, holder.stderr];
  holder.stdin.on('error', () => {});
  let said = '';
  holder.stderr.setEncoding('utf8').on('data', (text: string) => (said = `${said}${text}`.slice(0, 300)));
  return new Promise((resolve, reject) => {
    let held = false;
    let released = false;
    const gone = new Promise<void>((over) => holder.once('close', () => over()));
    holder.stdout.once('data', () => {
      held = true;
      // The lock must not keep us running.
      for (const part of parts) turn(part, 'unref');
      resolve({
        release: async () => {
          released = true;
          // Its end is waited for, so it counts again, to the last byte: else we might end in the middle of waiting.
          for (const part of parts) turn(part, 'ref');
          holder.stdin.end();
          await gone;
        },
      });
    });
    holder.once('error', (error) => reject(new Locked(`${folder} cannot be locked: ${error.message}`)));
    holder.once('close', (code, signal) => {
      if (held && !released) onLost?.(`the lock on ${folder} is lost: its holder ended by ${signal ?? code}`);
      if (held) return;
      if (code === taken) resolve(undefined);
      else reject(new Locked(`${folder} cannot be locked: ${said.trim() || `flock ended with ${code}`}`));
    });
  });
}

/** Lets something keep this process running, or not. The pipes of a process can do both, though their types do not say so. */
function turn(part: object, way: 'ref' | 'unref'): void {
  const { [way]: call } = part as { readonly ref?: () => void; readonly unref?: () => void };
  call?.call(part);
}
