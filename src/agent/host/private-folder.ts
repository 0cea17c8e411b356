/** Owns the check that no other user can put files into a directory that root trusts. */
import { realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Thrown where somebody else could: one line for an operator. */
export class SharedFolder extends Error {
  readonly code = 'shared_folder';
}

const writableByOthers = 0o022;
const sticky = 0o1000;

/**
 * Throws `SharedFolder` where another user owns the directory or one above it, or may write there. The check is for
 * root only: an agent of another user can harm only that user. Above the directory, a sticky directory like /tmp is
 * accepted: everyone may write there, but only the owner may rename a file.
 */
export async function refuseSharedFolder(folder: string, user: number | undefined): Promise<void> {
  if (user !== 0) return;
  const real = await realpath(folder);
  for (let path = real, above = false; ; path = dirname(path), above = true) {
    const { uid, mode } = await stat(path);
    if (uid !== 0)
      throw new SharedFolder(
        `${path} belongs to user ${uid}: root does not store files there. Run: chown root ${path}`,
      );
    const isOpen = (mode & writableByOthers) !== 0 && !(above && (mode & sticky) !== 0);
    if (isOpen)
      throw new SharedFolder(
        `other users may write to ${path}: root does not store files there. Run: chmod go-w ${path}`,
      );
    if (dirname(path) === path) return;
  }
}
