/** Owns the previous release as packages: built from its own commit in a folder of the cache, not from a copy in the tree. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildProgramDebs } from '../../scripts/packaging/build-debs.mjs';
import { cacheFolder } from '../../scripts/packaging/cache.mjs';
import { packageVersion } from '../../scripts/packaging/version.mjs';

const top = fileURLToPath(new URL('../..', import.meta.url));
const git = (...args: string[]): string => execFileSync('git', args, { cwd: top, encoding: 'utf8' }).trim();

/** The last state before there were releases. */
const beforeReleases = '17f65e5';

/** `RINGFENCE_PREVIOUS`, else the newest release that is not this one, else the state before there were any. */
function previousCommit(): string {
  const given = process.env['RINGFENCE_PREVIOUS'];
  if (given !== undefined) return git('rev-parse', `${given}^{commit}`);
  const tags = git('tag', '--list', 'v*', '--sort=-version:refname').split('\n').filter(Boolean);
  const newest = tags.find((tag) => tag !== `v${packageVersion()}`) ?? beforeReleases;
  return git('rev-parse', `${newest}^{commit}`);
}

/** A built checkout of that commit. */
function previousCheckout(): string {
  const commit = previousCommit();
  const folder = join(cacheFolder('previous'), commit);
  if (existsSync(folder)) return folder;
  const draft = `${folder}.${process.pid}`;
  mkdirSync(draft);
  try {
    const archive = execFileSync('git', ['archive', commit], { cwd: top, maxBuffer: 1 << 30 });
    execFileSync('tar', ['-x', '-C', draft], { input: archive });
    const quiet = { cwd: draft, stdio: 'ignore' } as const;
    execFileSync('npm', ['ci', '--prefer-offline', '--include=dev', '--no-audit', '--no-fund'], quiet);
    execFileSync('npm', ['run', 'build'], quiet);
    renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return folder;
}

export interface Release {
  readonly version: string;
  readonly debs: readonly string[];
}

type Build = typeof buildProgramDebs;

/**
 * The packages of the previous release, made by its own scripts where it had any. Its version is below ours, even where
 * it had no number yet.
 */
export async function previousRelease(outdir: string): Promise<Release> {
  const program = previousCheckout();
  const { version: numbered } = JSON.parse(readFileSync(join(program, 'package.json'), 'utf8')) as { version: string };
  const version = numbered === packageVersion() ? `${numbered}-previous` : numbered;
  const options = { program, version, notices: '', epoch: 1_700_000_000, outdir };
  const own = join(program, 'scripts/packaging/build-debs.mjs');
  if (!existsSync(own)) {
    return { version, debs: buildProgramDebs({ ...options, units: join(program, 'packaging') }) };
  }
  const { buildProgramDebs: build } = (await import(own)) as { readonly buildProgramDebs: Build };
  return { version, debs: build(options) };
}
