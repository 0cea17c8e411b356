/** Owns the calls of `pg_dump` and `pg_restore`, which copy a whole database out and back. */
import { execFile } from 'node:child_process';
import { open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseDatabaseUrl } from '../options/database-url.ts';
import { DatabaseError } from './errors.ts';
import type { Programs } from './programs.ts';

const run = promisify(execFile);

export interface DumpOptions {
  readonly programs: Programs;
  readonly url: string;
  readonly file: string;
  /** Ends the program, and leaves nothing behind. */
  readonly signal?: AbortSignal | undefined;
}

/** Everything goes through the environment: all users of the machine can read a program's arguments, and the URL may hold a password. */
function environmentOf(url: string): NodeJS.ProcessEnv {
  const { hosts, user, password, database, tls } = parseDatabaseUrl(url);
  const { mode, rootCert, cert, key } = tls;
  const known = {
    PGHOST: hosts.map(({ host }) => host).join(','),
    PGPORT: hosts.map(({ port }) => port).join(','),
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
    PGSSLMODE: mode,
    PGSSLROOTCERT: rootCert,
    PGSSLCERT: cert,
    PGSSLKEY: key,
    PGTARGETSESSIONATTRS: 'read-write',
  };
  const given = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined));
  return { ...process.env, LC_ALL: 'C', ...given };
}

/** The database by name only; the environment holds the rest of the connection. */
const databaseOf = (url: string): string =>
  `--dbname=dbname='${(parseDatabaseUrl(url).database ?? '').replaceAll(/['\\]/g, String.raw`\$&`)}'`;

async function tool(name: string, { programs, url, signal }: DumpOptions, args: readonly string[]): Promise<void> {
  try {
    await run(join(programs.bin, name), [databaseOf(url), ...args], {
      env: environmentOf(url),
      cwd: '/',
      maxBuffer: 1 << 24,
      signal,
    });
  } catch (cause) {
    if (signal?.aborted === true) throw new DatabaseError('failed', 'stopped before the end', { cause });
    const said = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim().split('\n') : [];
    const detail = said.find((line) => /error/i.test(line)) ?? said.at(-1) ?? String(cause);
    throw new DatabaseError('failed', `${name} failed: ${detail.replace(/^pg_\w+: (error: )?/, '')}`, { cause });
  }
}

export interface TakeOptions extends DumpOptions {
  /** Tables whose rows are left out. */
  readonly without?: readonly string[];
}

/** Writes everything as of one moment into a file that only its owner can read; it appears under its name when it is whole. Gives its size. */
export async function dumpDatabase({ without = [], ...options }: TakeOptions): Promise<number> {
  const leaveOut = without.map((table) => `--exclude-table-data=public.${table}`);
  const partial = `${options.file}.partial-${process.pid}`;
  try {
    // Made by us first, so that it is private from the first byte on.
    const handle = await open(partial, 'wx', 0o600);
    try {
      await tool('pg_dump', options, [
        '--format=custom',
        '--no-owner',
        '--no-privileges',
        ...leaveOut,
        `--file=${partial}`,
      ]);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, options.file);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  return (await stat(options.file)).size;
}

/** Puts a dump in the place of what the database holds, all of it or nothing. */
export async function restoreDump(options: DumpOptions): Promise<void> {
  const handle = await open(options.file, 'r').catch((cause: unknown) => {
    throw new DatabaseError('failed', `cannot read ${options.file}: ${(cause as Error).message}`, { cause });
  });
  await handle.close();
  const whole = ['--clean', '--if-exists', '--single-transaction', '--exit-on-error'];
  await tool('pg_restore', options, [...whole, '--no-owner', '--no-privileges', options.file]);
}
