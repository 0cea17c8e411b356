/** Owns programs of earlier commits: each is built from history by its own script; only the packages that it is built with are ours. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { buildProgramDebs } from '../../scripts/packaging/build-debs.mjs';
import { versions } from '../../src/api/version.ts';
import { rollingSince } from '../../src/server/store/schema/export-migrations.ts';
import { migrations } from '../../src/server/store/schema/migrations.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const git = (...args: string[]): Buffer => execFileSync('git', args, { cwd: top, maxBuffer: 1 << 30 });

type Build = { readonly buildProgram: (options: { readonly outdir: string }) => Promise<unknown> };

/** The commit with this title. */
export const commitOf = (title: string): string =>
  git('log', '--format=%H', '-1', '--fixed-strings', `--grep=${title}`).toString().trim();

/** The version of the database schema that this program makes. */
export const schemaVersion = Math.max(...migrations.map(({ version }) => version));

/** The same, of a commit. */
function schemaVersionAt(commit: string): number {
  const found = git('grep', '-hoE', '^ *version: [0-9]+,', commit, '--', 'src/server/store/schema').toString();
  return Math.max(...[...found.matchAll(/\d+/g)].map(([number]) => Number(number)));
}

/**
 * The last commit before a version of the wire began: the newest one whose database schema is older than ours and whose servers run beside ours. While there is
 * none, the commit since which servers are replaced one after the other. Or the one that `RINGFENCE_PREVIOUS` names.
 */
export function previousRelease(): string {
  const given = process.env['RINGFENCE_PREVIOUS'];
  if (given !== undefined) return given;
  for (const [version] of versions.toReversed()) {
    const begun = git('log', '--format=%H', `-S['${version}'`, '--', 'src/api/version.ts').toString().trim();
    const commit = `${begun.split('\n').at(-1)}^`;
    const schema = schemaVersionAt(commit);
    if (schema < rollingSince) break;
    if (schema < schemaVersion) return commit;
  }
  const begun = `-Sversion: ${rollingSince},`;
  const since = git('log', '--format=%H', begun, '--', 'src/server/store/schema').toString().trim();
  return since.split('\n').at(-1) || 'HEAD';
}

/** A folder with the source of that commit and its program: `bin/ringfence`, which runs `dist/ringfence.mjs`. */
export async function olderProgram(commit: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-older-'));
  execFileSync('tar', ['-x', '-C', folder], { input: git('archive', commit) });
  symlinkSync(join(top, 'node_modules'), join(folder, 'node_modules'));
  const { buildProgram } = (await import(join(folder, 'scripts/build-program.mjs'))) as Build;
  await buildProgram({ outdir: join(folder, 'dist') });
  return folder;
}

/** Unpacks the Debian packages of such a folder, which that commit's own script makes. Gives the folder where they put the program. */
export async function unpackedProgram(folder: string): Promise<string> {
  const own = (await import(join(folder, 'scripts/packaging/build-debs.mjs'))) as {
    buildProgramDebs: typeof buildProgramDebs;
  };
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  const options = { program: folder, version, notices: '', epoch: 1_700_000_000, outdir: join(folder, 'packages') };
  const root = join(folder, 'root');
  for (const deb of own.buildProgramDebs(options)) execFileSync('dpkg-deb', ['-x', deb, root]);
  return join(root, 'usr/lib/ringfence/program');
}
