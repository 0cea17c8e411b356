/** Owns the calls of `pg_dump`, which copies a whole database out, and of `pg_restore`, which tells what is in such a copy. */
import { execFile, spawn } from 'node:child_process';
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

function failureOf(
  name: string,
  stderr: string,
  { cause, signal }: { readonly cause: unknown; readonly signal?: AbortSignal | undefined },
): DatabaseError {
  if (signal?.aborted === true) return new DatabaseError('failed', 'stopped before the end', { cause });
  const said = stderr.trim().split('\n').filter(Boolean);
  const detail = said.find((line) => /error/i.test(line)) ?? said.at(-1) ?? String(cause);
  return new DatabaseError('failed', `${name} failed: ${detail.replace(/^pg_\w+: (error: )?/, '')}`, { cause });
}

async function pgDump({ programs, url, signal }: DumpOptions, args: readonly string[]): Promise<void> {
  try {
    await run(join(programs.bin, 'pg_dump'), [databaseOf(url), ...args], {
      env: environmentOf(url),
      cwd: '/',
      maxBuffer: 1 << 24,
      signal,
    });
  } catch (cause) {
    const said = cause instanceof Error && 'stderr' in cause ? String(cause.stderr) : '';
    throw failureOf('pg_dump', said, { cause, signal });
  }
}

export interface TakeOptions extends DumpOptions {
  /** Tables whose rows are left out. */
  readonly without?: readonly string[];
  /** Adds what belongs to it before it appears. */
  readonly finish?: (file: string) => Promise<unknown>;
}

/** Writes everything as of one moment into a file that only its owner can read; it appears under its name when it is whole. Gives its size. */
export async function dumpDatabase({ without = [], finish, ...options }: TakeOptions): Promise<number> {
  const leaveOut = without.map((table) => `--exclude-table-data=public.${table}`);
  const partial = `${options.file}.partial-${process.pid}`;
  try {
    // Made by us first, so that it is private from the first byte on.
    const handle = await open(partial, 'wx', 0o600);
    try {
      await pgDump(options, [
        '--format=custom',
        '--no-owner',
        '--no-privileges',
        '--encoding=UTF8',
        ...leaveOut,
        `--file=${partial}`,
      ]);
      await finish?.(partial);
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

export interface DumpFile {
  readonly programs: Programs;
  readonly file: string;
  readonly signal?: AbortSignal | undefined;
}

/** What `pg_restore` writes about the file. It reaches no database. Fails at the end if it failed. */
async function* written({ programs, file, signal }: DumpFile, args: readonly string[]): AsyncGenerator<Buffer> {
  const child = spawn(join(programs.bin, 'pg_restore'), [...args, file], {
    env: { ...process.env, LC_ALL: 'C' },
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
  });
  let said = '';
  child.stderr.on('data', (text: Buffer) => {
    said = `${said}${text.toString()}`.slice(0, 4_096);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('close', resolve);
  });
  ended.catch(() => {});
  try {
    for await (const piece of child.stdout) yield piece as Buffer;
    if ((await ended) === 0) return;
    throw new Error(said.trim());
  } catch (cause) {
    throw failureOf('pg_restore', said, { cause, signal });
  } finally {
    child.kill();
  }
}

/** A dump as text: what is in it, and the script of its rows. */
export function readDump(dump: DumpFile): {
  list(): Promise<readonly string[]>;
  rows(table?: string): AsyncIterable<Buffer>;
} {
  return {
    async list() {
      const pieces: Buffer[] = [];
      for await (const piece of written(dump, ['--list'])) pieces.push(piece);
      const lines = Buffer.concat(pieces).toString().split('\n');
      return lines.filter((line) => line !== '' && !line.startsWith(';'));
    },
    rows(table) {
      const only = table === undefined ? [] : [`--table=${table}`, '--schema=public'];
      return written(dump, ['--data-only', '--file=-', ...only]);
    },
  };
}
