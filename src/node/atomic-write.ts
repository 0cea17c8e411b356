/** Owns atomic file writes: a reader sees the old file or the new one, never a part. */
import { closeSync, constants, fchmodSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { open, readdir, rename, rm, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

export interface AtomicWriteOptions {
  readonly mode: number;
  /** Whether it must be on the disk when the write resolves. Otherwise it is only never half. */
  readonly durable: boolean;
  readonly failpoint?: (at: 'written' | 'renamed') => void | Promise<void>;
}

/**
 * Creates a new file only and follows no link, so another user who can write to the directory cannot redirect the
 * write.
 */
const fresh = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** A file that was not there before, or is not any more: a leftover of that name is removed, a link too, and never followed. */
export async function openFreshFile(path: string, mode: number): Promise<FileHandle> {
  await rm(path, { force: true });
  return open(path, fresh, mode);
}

/** A complete file under a temporary name. The caller either places it or discards it. */
export interface PreparedFile {
  /** Replaces the file at the final path in one atomic step. */
  readonly place: () => Promise<void>;
  readonly discard: () => Promise<void>;
}

/**
 * A random name that an attacker cannot guess and so cannot create first. `node:crypto` is loaded here, not at the top,
 * because commands that write no file should not wait for it.
 */
const passingName = (path: string): string =>
  `${path}.${process.getBuiltinModule('node:crypto').randomBytes(8).toString('hex')}.new`;

export async function prepareFile(
  path: string,
  text: string,
  { mode, durable }: Pick<AtomicWriteOptions, 'mode' | 'durable'>,
): Promise<PreparedFile> {
  const passing = passingName(path);
  const discard = (): Promise<void> => rm(passing, { force: true }).catch(() => {});
  try {
    const file = await open(passing, fresh, mode);
    try {
      await file.chmod(mode); // Whatever the umask says.
      await file.writeFile(text);
      if (durable) await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    await discard();
    throw error;
  }
  return { place: () => rename(passing, path), discard };
}

/**
 * Writes a small file whole, at once, not forced to the disk: for what somebody waits for. Each step that is left to another thread
 * would take longer than all of it.
 */
export function writeFileAtomicallySync(path: string, text: string, mode: number): void {
  const passing = passingName(path);
  try {
    const file = openSync(passing, fresh, mode);
    try {
      fchmodSync(file, mode); // Whatever the umask says.
      writeFileSync(file, text);
    } finally {
      closeSync(file);
    }
    renameSync(passing, path);
  } catch (error) {
    rmSync(passing, { force: true });
    throw error;
  }
}

export async function writeFileAtomically(
  path: string,
  text: string,
  { mode, durable, failpoint }: AtomicWriteOptions,
): Promise<void> {
  const file = await prepareFile(path, text, { mode, durable });
  try {
    await failpoint?.('written');
    await file.place();
  } catch (error) {
    await file.discard();
    throw error;
  }
  await failpoint?.('renamed');
  if (durable) await syncFolder(dirname(path));
}

/**
 * Removes the temporary files that interrupted writes of these paths left behind. No other process may write these
 * paths meanwhile.
 */
export async function removeUnfinished(paths: readonly string[]): Promise<void> {
  for (const folder of new Set(paths.map((path) => dirname(path)))) {
    const owned = new Set(paths.filter((path) => dirname(path) === folder).map((path) => basename(path)));
    for (const name of await readdir(folder).catch(() => [])) {
      const [, original = ''] = /^(.*)\.[0-9a-f]{16}\.new$/.exec(name) ?? [];
      // Earlier versions had one name for it.
      if (owned.has(original) || (owned.has(name.replace(/\.new$/, '')) && name.endsWith('.new')))
        await rm(join(folder, name), { force: true }).catch(() => {});
    }
  }
}

async function syncFolder(folder: string): Promise<void> {
  const directory = await open(folder, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
