/** Owns the writing of the intent: it overwrites the previous one in the same file in one write. */
import { closeSync, constants, fstatSync, ftruncateSync, openSync, writeSync, type Stats } from 'node:fs';
import { writeFileAtomicallySync } from '../../node/atomic-write.ts';

const mode = 0o600;

/**
 * Whether the file is a regular file of ours with a single name: another user who can write to the directory must not
 * redirect the write.
 */
const isOwn = ({ nlink, uid, mode: found }: Stats): boolean =>
  found === (constants.S_IFREG | mode) && nlink === 1 && uid === process.geteuid?.();

/** False where there is no such file that may be written over. */
function writeOver(path: string, bytes: Uint8Array): boolean {
  let file: number;
  try {
    file = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return false;
  }
  try {
    const stats = fstatSync(file);
    if (!isOwn(stats)) return false;
    for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at, bytes.length - at, at);
    if (stats.size > bytes.length) ftruncateSync(file, bytes.length);
    return true;
  } finally {
    closeSync(file);
  }
}

/**
 * Writes the text, which must tell by itself whether it is whole: one that a crash cut counts as none. To replace the file would be safer
 * and take the longest of all that a small change waits for, because a file system such as ext4 then writes the new one to the disk first.
 * Where the file is not there, or not as we make it, it is replaced.
 */
export function writeIntentFile(path: string, text: string): void {
  if (!writeOver(path, Buffer.from(text))) writeFileAtomicallySync(path, text, mode);
}
