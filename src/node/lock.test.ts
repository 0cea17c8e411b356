/**
 * Proves the locks of directories: one holder for all of them, an error that names the folder another agent has locked,
 * and a release that waits until the holder has ended.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { lockFolders } from './lock.ts';

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
      contents: `import { lockFolders } from ${JSON.stringify(lock)};
        const lock = await lockFolders([{ folder: process.argv[2], held: '' }]);
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

it('tells which of the places another has, takes none then, and takes all once they are free', async () => {
  const places = ['first', 'second'].map((name) => ({ folder: join(folder, name), held: `another has the ${name}` }));
  for (const place of places) await mkdir(place.folder);
  const once = { attempts: 1 };
  for (const place of places) {
    const other = await lockFolders([place]);
    await expect(lockFolders(places, once)).rejects.toThrow(place.held);
    await other.release();
  }
  const both = await lockFolders(places);
  for (const place of places) await expect(lockFolders([place], once)).rejects.toThrow(place.held);
  await both.release();
  await (await lockFolders(places)).release();
});

it('says why a place cannot be locked', async () => {
  const place = { folder: join(folder, 'absent', 'below'), held: '' };
  await expect(lockFolders([place])).rejects.toThrow(/below cannot be locked: .*No such file/);
});
