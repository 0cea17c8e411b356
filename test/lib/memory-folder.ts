/**
 * Owns where the temporary files of a run lie: in memory, where the machine has room for them. The run makes hundreds of databases of
 * hundreds of files each and takes them away again, which on a disk costs the kernel six times as much, though nothing of it need last.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, readlink, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { isRunning } from './processes.ts';

const memory = '/dev/shm';
/** The tests of the database were seen to take a fifth of one GiB at a time; what else the machine does wants memory too. */
const leastRoom = 2 * 2 ** 30;
const leastMemory = 4 * 2 ** 30;

/**
 * Named after its process and the numbers' own space, so that the next run finds what one that was killed has left, and nothing of a
 * container that shares this memory; short, because sockets lie there.
 */
async function prefix(): Promise<string> {
  const [space = ''] = /\d+/.exec(await readlink('/proc/self/ns/pid')) ?? [];
  return `rf-${Number(space).toString(36)}-`;
}

async function removeAbandoned(ours: string): Promise<void> {
  for (const name of (await readdir(memory)).filter((each) => each.startsWith(ours))) {
    const owner = Number(name.slice(ours.length));
    const isInUse = owner !== process.pid && isRunning(owner);
    if (!isInUse) await rm(join(memory, name), { recursive: true, force: true });
  }
}

/** A folder like /tmp in memory; fails where there is no room, or where no program may be run from. */
async function makeFolder(): Promise<string> {
  const { bavail, bsize } = await statfs(memory);
  if (bavail * bsize < leastRoom || process.availableMemory() < leastMemory) throw new Error('no room');
  const ours = await prefix();
  await removeAbandoned(ours);
  const folder = join(memory, `${ours}${process.pid}`);
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
  // Already chosen: an explicit TMPDIR takes precedence.
  if (process.env['TMPDIR'] !== undefined) return undefined;
  const folder = await makeFolder().catch(() => undefined);
  if (folder === undefined) return undefined;
  process.env['TMPDIR'] = folder;
  return async () => {
    delete process.env['TMPDIR'];
    await rm(folder, { recursive: true, force: true });
  };
}
