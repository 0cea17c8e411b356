/** Owns the search for PostgreSQL's programs on the system. */
import { execFile } from 'node:child_process';
import { access, constants, readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
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

async function debianDirectories(root = '/usr/lib/postgresql'): Promise<string[]> {
  const versions = await readdir(root).catch(() => []);
  return versions.toSorted((a, b) => Number(b) - Number(a)).map((version) => join(root, version, 'bin'));
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
  /** The directory of Debian's versions; another one in tests. */
  readonly debian?: string | undefined;
  readonly path?: string | undefined;
}): Promise<Programs> {
  const path = (options.path ?? process.env['PATH'] ?? '').split(delimiter).filter((entry) => entry !== '');
  const candidates =
    options.bin === undefined ? [...(await debianDirectories(options.debian)), ...path] : [options.bin];
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
    options.bin === undefined
      ? 'no PostgreSQL programs found: install them (on Debian: apt install postgresql), name their directory with --postgres-bin, or use a database elsewhere with --database-url'
      : `no PostgreSQL programs in ${options.bin}: --postgres-bin names the directory that holds postgres and initdb`,
  );
}
