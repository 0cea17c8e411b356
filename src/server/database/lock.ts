/** Owns the lock that prevents two servers from using one data directory. */
import { constants } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Locked, lockFolders, type FolderLock } from '../../node/lock.ts';
import { DatabaseError } from './errors.ts';

/** A file that only its owner may open, because who may open a file or directory may also lock it. */
const lockFile = (dir: string): string => join(dir, 'lock');

/**
 * Opens the file, making it if need be. It belongs to the owner of the directory, so that root may run a command there
 * first, and the server's own user the server afterwards.
 */
async function openLockFile(dir: string): Promise<FileHandle> {
  const path = lockFile(dir);
  const own = process.geteuid?.();
  const { uid, gid } = await stat(dir);
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  try {
    const found = await handle.stat();
    if (!found.isFile() || (found.uid !== own && found.uid !== uid))
      throw new DatabaseError('failed', `${path} belongs to another user, who could keep the server from starting`);
    await handle.chmod(0o600);
    if (own === 0 && found.uid !== uid) await handle.chown(uid, gid);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** How long to wait for the lock of a server that is no more: the helper that held it needs a moment to end too. */
const mostMs = 10_000;
const againMs = 50;

/** The server that wrote itself into the file; undefined when none did. */
async function holderIn(handle: FileHandle): Promise<number | undefined> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(32), 0, 32, 0);
  const [pid] = /^[1-9]\d{0,9}(?=\n)/.exec(buffer.toString('latin1', 0, bytesRead)) ?? [];
  return pid === undefined ? undefined : Number(pid);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Takes the lock or fails with `in_use`, naming the holder. The kernel drops the lock when this process dies, so nothing
 * stale is left behind. Elsewhere than on Linux PostgreSQL's own interlock remains, with a less friendly message.
 */
export async function lockDirectory(dir: string, onLost: (why: string) => void): Promise<FolderLock> {
  if (process.platform !== 'linux') return { release: () => Promise.resolve() };
  const handle = await openLockFile(dir);
  try {
    for (let waited = 0; ; waited += againMs) {
      try {
        const lock = await lockFolders([{ folder: lockFile(dir), held: '' }], { attempts: 1, onLost });
        await handle.truncate();
        await handle.write(`${process.pid}\n`, 0);
        return lock;
      } catch (error) {
        if (!(error instanceof Locked)) throw error;
        if (error.message !== '') throw new DatabaseError('failed', error.message, { cause: error });
        const holder = await holderIn(handle);
        if ((holder !== undefined && isAlive(holder)) || waited >= mostMs) {
          const who = holder === undefined ? '' : ` (pid ${holder})`;
          throw new DatabaseError('in_use', `another ringfence server${who} is using ${dir}`, { cause: error });
        }
      }
      await sleep(againMs);
    }
  } finally {
    await handle.close();
  }
}
