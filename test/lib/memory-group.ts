/** Owns a control group that limits and measures what a program and its helpers take in memory, those parts of the kernel included that count for them. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from './eventually.ts';

/** Version 1 has a hierarchy for memory, version 2 one for everything. */
const versions = [
  { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', peak: 'memory.max_usage_in_bytes' },
  { root: '/sys/fs/cgroup', limit: 'memory.max', peak: 'memory.peak' },
] as const;

let made = 0;

export class MemoryGroup {
  readonly #folder: string;
  readonly #peak: string;

  private constructor(folder: string, peak: string) {
    this.#folder = folder;
    this.#peak = peak;
  }

  /** `bytes`: what is beyond it is killed, as on a device that has no more. */
  static async open(bytes: number): Promise<MemoryGroup> {
    const version = versions.find(
      ({ root, limit }) =>
        existsSync(join(root, 'cgroup.procs')) && (root.endsWith('memory') || !existsSync(join(root, limit))),
    );
    if (version === undefined) throw new Error('this machine has no control group for memory');
    const folder = join(version.root, `ringfence-test-${process.pid}-${(made += 1)}`);
    await mkdir(folder);
    await writeFile(join(folder, version.limit), String(bytes));
    return new MemoryGroup(folder, version.peak);
  }

  /** Takes in a process that has just started; what it starts belongs to the group too. */
  async add(pid: number): Promise<void> {
    await writeFile(join(this.#folder, 'cgroup.procs'), String(pid));
  }

  /** The most that was in use, in bytes. */
  async peak(): Promise<number> {
    return Number(await readFile(join(this.#folder, this.#peak), 'utf8'));
  }

  /** Once its programs have ended. */
  async close(): Promise<void> {
    await eventually('the control group is empty', () =>
      rmdir(this.#folder).then(
        () => true,
        () => false,
      ),
    );
  }
}
