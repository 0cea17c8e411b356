/** Owns programs of earlier commits: each is built from history by its own script; only the packages that it is built with are ours. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { apiVersion } from '../../src/api/version.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const git = (...args: string[]): Buffer => execFileSync('git', args, { cwd: top, maxBuffer: 1 << 30 });

type Build = { readonly buildProgram: (options: { readonly outdir: string }) => Promise<unknown> };

/** The commit with this title. */
export const commitOf = (title: string): string =>
  git('log', '--format=%H', '-1', '--fixed-strings', `--grep=${title}`).toString().trim();

/** The last commit before the wire got its present version, or the one that `RINGFENCE_PREVIOUS` names. */
export function previousRelease(): string {
  const begun = git('log', '--format=%H', `-S['${apiVersion}'`, '--', 'src/api/version.ts').toString().trim();
  return process.env['RINGFENCE_PREVIOUS'] ?? `${begun.split('\n').at(-1)}^`;
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
