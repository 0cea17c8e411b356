/** Owns the writing of files that are never seen half: the old one or the new one, whatever happens in between. */
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

export interface WholeFileOptions {
  readonly mode: number;
  /** Whether it must be on the disk when the write resolves. Otherwise it is only never half. */
  readonly durable: boolean;
  readonly failpoint?: (at: 'written' | 'renamed') => void | Promise<void>;
}

export async function writeWholeFile(
  path: string,
  text: string,
  { mode, durable, failpoint }: WholeFileOptions,
): Promise<void> {
  const passing = `${path}.new`;
  try {
    const file = await open(passing, 'w', mode);
    try {
      await file.chmod(mode); // Also where a file of that name was left behind with another mode.
      await file.writeFile(text);
      if (durable) await file.sync();
    } finally {
      await file.close();
    }
    await failpoint?.('written');
    await rename(passing, path);
  } catch (error) {
    await rm(passing, { force: true }).catch(() => {});
    throw error;
  }
  await failpoint?.('renamed');
  if (durable) await syncFolder(dirname(path));
}

async function syncFolder(folder: string): Promise<void> {
  const directory = await open(folder, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
