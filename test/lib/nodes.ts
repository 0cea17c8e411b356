/** Owns the oldest and the newest Node that the program runs on: installed by the lock file of `test/nodes` when a test first asks for them. */
import { execFile } from 'node:child_process';
import { access, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const folder = fileURLToPath(new URL('../nodes', import.meta.url));

export interface InstalledNode {
  /** As in `process.versions.node`. */
  readonly version: string;
  /** The path of its program. */
  readonly node: string;
}

const versionOf = async (node: string): Promise<string> => (await run(node, ['--version'])).stdout.trim().slice(1);

async function nodeAt(age: 'oldest' | 'newest'): Promise<InstalledNode> {
  const name = `${age}-${process.arch}`;
  const lock = JSON.parse(await readFile(`${folder}/package-lock.json`, 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version: string }>>;
  };
  const version = lock.packages[`node_modules/${name}`]?.version;
  if (version === undefined) throw new Error(`test/nodes has no Node for ${process.arch}`);
  const node = `${folder}/node_modules/${name}/bin/node`;
  const isThere = await access(node).then(
    async () => (await versionOf(node)) === version,
    () => false,
  );
  if (!isThere) await run('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund'], { cwd: folder });
  return { version: await versionOf(node), node };
}

export async function installedNodes(): Promise<{ readonly oldest: InstalledNode; readonly newest: InstalledNode }> {
  const oldest = await nodeAt('oldest');
  return { oldest, newest: await nodeAt('newest') };
}
