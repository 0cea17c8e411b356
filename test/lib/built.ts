/** Owns the program that tests run: built once for a whole run, by the first who needs it; its files are shared and never written to. */
import { execFile } from 'node:child_process';
import { cp, mkdir, rename, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Where the run's build lies; set before the test processes start, and inherited by them (`shared-build.ts`). */
export const sharedBuildVariable = 'RINGFENCE_TEST_BUILD';

export type Part = 'program' | 'web' | 'client';

const scripts: { readonly [P in Part]: readonly [file: string, verb: string] } = {
  program: ['build-program', 'buildProgram'],
  web: ['build-web', 'buildWeb'],
  client: ['build-client', 'buildClient'],
};

/** In a process of its own, from the top of the repository: a benchmark that is bundled itself cannot import the build. */
export async function buildInto(outdir: string, parts: readonly Part[]): Promise<void> {
  const steps = parts.map((part) => {
    const [file, verb] = scripts[part];
    return `import('./scripts/${file}.mjs').then((build) => build.${verb}({ outdir: ${JSON.stringify(outdir)} }))`;
  });
  await promisify(execFile)(process.execPath, ['--input-type=module', '-e', steps.map((s) => `await ${s};`).join('')]);
}

/** Where everything lies that `npm test` has built just before; otherwise what lies there may be old. */
const fresh =
  process.env['RINGFENCE_TEST_FRESH'] === 'dist' ? fileURLToPath(new URL('../../dist', import.meta.url)) : undefined;

/** The files that `build-program` writes: without the client library and the web UI. */
const ofProgram = (path: string): boolean => /^(?!client\.)[\w-]+\.mjs(\.map)?$/.test(basename(path));

async function programInto(outdir: string): Promise<void> {
  if (fresh === undefined) return buildInto(outdir, ['program']);
  await cp(fresh, outdir, { recursive: true, filter: (path) => path === fresh || ofProgram(path) });
}

/** The client library and its types, in a folder of one's own. */
export async function clientInto(outdir: string): Promise<void> {
  if (fresh === undefined) return buildInto(outdir, ['client']);
  const isClient = (path: string): boolean => /^(client\.mjs(\.map)?|types)(\/|$)/.test(path.slice(fresh.length + 1));
  await cp(fresh, outdir, { recursive: true, filter: (path) => path === fresh || isClient(path) });
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Only one may make a folder: that one builds. */
const isFirst = (folder: string): Promise<boolean> =>
  mkdir(folder).then(
    () => true,
    () => false,
  );

const longest = 120_000;

async function buildOnce(folder: string): Promise<string> {
  const [built, failed] = [join(folder, 'dist'), join(folder, 'failed')];
  if (await isFirst(join(folder, 'begun'))) {
    try {
      await programInto(join(folder, 'unfinished'));
    } catch (error) {
      await writeFile(failed, String(error));
      throw error;
    }
    await rename(join(folder, 'unfinished'), built);
    return built;
  }
  for (const end = Date.now() + longest; !(await exists(built)); await sleep(20)) {
    if (await exists(failed)) throw new Error('the program cannot be built: the first file that wanted it says why');
    if (Date.now() > end) throw new Error(`the program was not built in ${longest} ms by the file that began with it`);
  }
  return built;
}

/** The folder of the run's built program; nothing in it may be changed. */
export function builtProgram(): Promise<string> {
  const folder = process.env[sharedBuildVariable];
  if (folder === undefined) throw new Error('only a run of vitest has a build that its files share');
  return buildOnce(folder);
}

/** A copy for those who put something beside it, or let others in. */
export async function copyProgram(outdir: string): Promise<void> {
  await cp(await builtProgram(), outdir, { recursive: true });
}
