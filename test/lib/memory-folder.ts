/**
 * Owns where the temporary files of a run lie: in memory, where the machine has room for them. The run makes hundreds of databases of
 * hundreds of files each and takes them away again, which on a disk costs the kernel six times as much, though nothing of it need last.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isRunning } from './processes.ts';

const memory = '/dev/shm';
/** A run takes less than half of one GiB; what else the machine does wants memory too. */
const leastRoom = 2 * 2 ** 30;
const leastMemory = 4 * 2 ** 30;

/** Named after its process, so that the next run finds what one that was killed has left; short, because sockets lie there. */
const ownerOf = (name: string): number => Number(/^rf-(\d+)$/.exec(name)?.[1]);

async function removeAbandoned(): Promise<void> {
  const abandoned = (await readdir(memory)).filter((name) => {
    const owner = ownerOf(name);
    return owner === process.pid || (owner > 0 && !isRunning(owner));
  });
  for (const name of abandoned) await rm(join(memory, name), { recursive: true, force: true });
}

/** A folder like /tmp in memory; fails where there is no room, or where no program may be run from. */
async function makeFolder(): Promise<string> {
  const { bavail, bsize } = await statfs(memory);
  if (bavail * bsize < leastRoom || process.availableMemory() < leastMemory) throw new Error('no room');
  await removeAbandoned();
  const folder = join(memory, `rf-${process.pid}`);
  await mkdir(folder);
  try {
    await chmod(folder, 0o1777);
    const program = join(folder, 'runs');
    await writeFile(program, '#!/bin/sh\n', { mode: 0o700 });
    await promisify(execFile)(program);
    await rm(program);
    return folder;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Called by vitest once before a project's tests; what it gives back is called after them. The first project chooses for all. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  // Chosen already; and whoever names a place for such files means it.
  if (process.env['TMPDIR'] !== undefined) return undefined;
  const folder = await makeFolder().catch(() => undefined);
  if (folder === undefined) return undefined;
  process.env['TMPDIR'] = folder;
  return async () => {
    delete process.env['TMPDIR'];
    await rm(folder, { recursive: true, force: true });
  };
}
