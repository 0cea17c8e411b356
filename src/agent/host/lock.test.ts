/** Proves that a process which lets go of its lock lives until the holder has ended, to the last of its pipes. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterEach, beforeEach, expect, it } from 'vitest';

const run = promisify(execFile);
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-lock-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

it('goes on after the release, however late the pipes of the holder close', async () => {
  const lock = fileURLToPath(new URL('./lock.ts', import.meta.url));
  await build({
    stdin: {
      contents: `import { lockFolder } from ${JSON.stringify(lock)};
        const lock = await lockFolder(process.argv[2]);
        await lock.release();
        console.log('released');`,
      resolveDir: folder,
    },
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: join(folder, 'program.mjs'),
    logLevel: 'error',
  });
  // A holder that is gone before its pipes are: somebody else has them open for a moment longer.
  await writeFile(join(folder, 'flock'), '#!/bin/sh\necho held\ncat\nsleep 0.3 &\n', { mode: 0o755 });
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}` };
  const { stdout } = await run(process.execPath, [join(folder, 'program.mjs'), folder], { env });
  expect(stdout).toBe('released\n');
});
