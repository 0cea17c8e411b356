/** Owns the locks that keep two programs off one directory: the agent's state, the server's data. */
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { helperEnvironment } from './helper-environment.ts';

export interface FolderLock {
  release(): Promise<void>;
}

/** Thrown where the lock cannot be had. */
export class Locked extends Error {
  readonly code = 'locked';
}

/** What flock ends with where another has the first lock; the next ones have the numbers after it. */
const taken = 75;

/** A directory, or a file, to lock. */
export interface LockedFolder {
  readonly folder: string;
  /** What to say where another has it. */
  readonly held: string;
}

export interface LockOptions {
  /** How often to look again: a holder that was killed needs a moment to go. */
  readonly attempts?: number;
  /** Called when the locks are lost without a call of `release`. */
  readonly onLost?: (why: string) => void;
  /** Milliseconds for an answer of `flock`; 5 seconds unless given. */
  readonly timeoutMs?: number;
  /**
   * What to do where `flock` does not answer in time. With this, the caller goes on without the locks, and is called again if another holder turns out to
   * have them. Without this, the locks are refused.
   */
  readonly onSilence?: SilenceHandlers;
}

export interface SilenceHandlers {
  /** `flock` hangs: the caller goes on. */
  readonly unlocked: (why: string) => void;
  /** `flock` answered late: another has a lock. */
  readonly taken: (error: Locked) => void;
}

/**
 * Takes the locks, or throws `Locked`. Node cannot lock files, so a small process holds the locks for us. It locks the
 * directories themselves, which works on a full or read-only disk too. It ends whenever we end, because its input
 * closes, and then the kernel drops its locks. Unlike a socket's name, a user without rights to a directory cannot take
 * its lock.
 */
export async function lockFolders(places: readonly LockedFolder[], options: LockOptions = {}): Promise<FolderLock> {
  const { attempts = 20 } = options;
  for (let attempt = 1; ; attempt++) {
    const lock = await tryLock(places, options);
    if ('release' in lock) return lock;
    if (attempt >= attempts) throw new Locked(lock.held);
    await sleep(50);
  }
}

/** The locks, or the first place of which another has it. */
function tryLock(
  places: readonly LockedFolder[],
  { onLost, timeoutMs = 5_000, onSilence }: LockOptions,
): Promise<FolderLock | LockedFolder> {
  // Ctrl-C and a unit's end reach it too; it goes when we have gone.
  const script = "trap '' INT TERM HUP; echo held && exec cat";
  // Each becomes the next, and keeps what it has locked: one process holds all.
  const [program = '', ...args] = places
    .flatMap(({ folder }, i) => ['flock', '--nonblock', '--conflict-exit-code', `${taken + i}`, '--no-fork', folder])
    .concat('sh', '-c', script);
  const holder = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], env: helperEnvironment });
  const folders = places.map(({ folder }) => folder).join(' and ');
  const parts = [holder, holder.stdin, holder.stdout, holder.stderr];
  holder.stdin.on('error', () => {});
  let said = '';
  holder.stderr.setEncoding('utf8').on('data', (text: string) => (said = `${said}${text}`.slice(0, 300)));
  return new Promise((resolve, reject) => {
    let held = false;
    let released = false;
    let isLate = false;
    const gone = new Promise<void>((over) => holder.once('close', () => over()));
    /** Kills a holder that hangs. Its children may keep the pipes open, so we do not wait for those. */
    const giveUp = (): void => {
      released = true;
      holder.kill('SIGKILL');
      for (const pipe of [holder.stdin, holder.stdout, holder.stderr]) pipe.destroy();
    };
    const handOver = (): void => {
      // The locks must not keep us running.
      for (const part of parts) turn(part, 'unref');
      resolve({
        release: async () => {
          if (!held) return giveUp();
          released = true;
          // Its end is waited for, so it counts again, to the last byte: else we might end in the middle of waiting.
          for (const part of parts) turn(part, 'ref');
          holder.stdin.end();
          await gone;
        },
      });
    };
    const silence = setTimeout(() => {
      const why = `${folders} cannot be locked: flock did not answer within ${timeoutMs / 1_000} s`;
      if (onSilence === undefined) {
        giveUp();
        reject(new Locked(why));
        return;
      }
      isLate = true;
      onSilence.unlocked(why);
      handOver();
    }, timeoutMs);
    holder.stdout.once('data', () => {
      clearTimeout(silence);
      held = true;
      handOver();
    });
    holder.once('error', (error) => {
      clearTimeout(silence);
      reject(new Locked(`${folders} cannot be locked: ${error.message}`));
    });
    holder.once('close', (code, signal) => {
      clearTimeout(silence);
      if (released) return;
      if (held) {
        onLost?.(`the lock on ${folders} is lost: its holder exited with ${signal ?? code}`);
        return;
      }
      const other = code === null ? undefined : places[code - taken];
      if (isLate) {
        if (other !== undefined) onSilence?.taken(new Locked(other.held));
      } else if (other !== undefined) resolve(other);
      else reject(new Locked(`${folders} cannot be locked: ${said.trim() || `flock exited with code ${code}`}`));
    });
  });
}

/** Lets something keep this process running, or not. The pipes of a process can do both, though their types do not say so. */
function turn(part: object, way: 'ref' | 'unref'): void {
  const { [way]: call } = part as { readonly ref?: () => void; readonly unref?: () => void };
  call?.call(part);
}
