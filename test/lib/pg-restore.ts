/** Owns what an operator does without our command: `pg_restore`, also under a running server. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Programs } from '../../src/server/database/programs.ts';

const run = promisify(execFile);

export async function pgRestore({
  programs,
  url,
  file,
}: {
  readonly programs: Programs;
  readonly url: string;
  readonly file: string;
}): Promise<void> {
  const whole = ['--clean', '--if-exists', '--single-transaction', '--exit-on-error', '--no-owner', '--no-privileges'];
  for (let attempt = 1; ; attempt += 1) {
    try {
      await run(join(programs.bin, 'pg_restore'), [`--dbname=${url}`, ...whole, file], { cwd: '/' });
      return;
    } catch (error) {
      // A server that writes may have what it needs next, and need what it has. PostgreSQL may end either; then nothing was restored.
      if (attempt === 20 || !String(error).includes('deadlock detected')) throw error;
    }
  }
}
