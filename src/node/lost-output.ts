/** Owns what happens to a program that goes on when nothing reads its output any more. */

/**
 * Ctrl-C ends `tee` before a program that writes to it: what the program still says is lost, and it ends in its own order. Without this, a word to the
 * pipe would end it at once.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.removeAllListeners('error').on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
    });
}
