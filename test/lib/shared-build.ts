/** Owns the folder of the one build that the test files of a run share: building the program for each of them took minutes of a processor. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { sharedBuildVariable } from './built.ts';

/** Called by vitest once before a project's tests; what it gives back is called after them. The first project makes it for all. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (process.env[sharedBuildVariable] !== undefined) return undefined;
  const folders: string[] = [];
  const anew = async (): Promise<void> => {
    const folder = await mkdtemp(join(tmpdir(), 'rf-build-'));
    folders.push(folder);
    process.env[sharedBuildVariable] = folder;
  };
  await anew();
  // While vitest watches, the source has changed by then.
  project.onTestsRerun(anew);
  return async () => {
    delete process.env[sharedBuildVariable];
    for (const folder of folders) await rm(folder, { recursive: true, force: true });
  };
}
