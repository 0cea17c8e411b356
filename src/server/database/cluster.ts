/** Owns the files of the supervised PostgreSQL: it creates the cluster, places its socket, and reads its pid file. */
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, open, readFile, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { loginNames, type Account, type Launch } from './account.ts';
import { DatabaseError } from './errors.ts';
import type { Programs } from './programs.ts';

const run = promisify(execFile);

/** The kernel's limit for the path of a unix socket, less PostgreSQL's own file name (and its lock file's) in that directory. */
const longestSocketDirectory = 107 - '/.s.PGSQL.5432'.length;

/** Only sets up; earlier versions did everything as this role. PostgreSQL never lets its first role be less. */
export const superuser = 'ringfence';
/** Owns the tables and nothing more: as this role, the server, backups and restores connect. */
export const serverRole = 'ringfence_server';

export const clusterDirectory = (dir: string): string => join(dir, 'postgres');

/** The version that created the cluster; undefined when there is none yet. */
export async function clusterVersion(dir: string): Promise<number | undefined> {
  const text = await readFile(join(clusterDirectory(dir), 'PG_VERSION'), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : Number.parseInt(text, 10);
}

async function give(path: string, account: Account | undefined): Promise<void> {
  await chmod(path, 0o700);
  if (account !== undefined) await chown(path, account.uid, account.gid);
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Makes the cluster beside its place and moves it there when it is whole and on disk, so that a crash half-way leaves
 * nothing that looks like a database.
 */
export async function makeCluster(
  dir: string,
  {
    programs,
    account,
    launch,
  }: {
    programs: Programs;
    account: Account | undefined;
    launch: (command: readonly string[], endsWithUs: boolean) => Launch;
  },
): Promise<void> {
  for (const name of await readdir(dir)) {
    // Tries again for ten seconds: the `initdb` of a start that was killed a moment ago ends too, and writes until then.
    const options = { recursive: true, force: true, maxRetries: 20, retryDelay: 50 };
    if (name.startsWith('postgres.new-')) await rm(join(dir, name), options);
  }
  const fresh = join(dir, `postgres.new-${process.pid}`);
  await mkdir(fresh);
  await give(fresh, account);
  const initdb = async (...words: string[]): Promise<void> => {
    const { program, args, options } = launch([join(programs.bin, 'initdb'), '-D', fresh, ...words], true);
    // LC_ALL: a locale that is set but not installed would stop initdb.
    await run(program, args, { ...options, cwd: '/', env: { PATH: process.env['PATH'], LC_ALL: 'C' } });
  };
  try {
    await initdb(
      `--username=${superuser}`,
      '--auth=reject',
      '--encoding=UTF8',
      '--no-locale',
      '--data-checksums',
      '--no-sync',
      '--no-instructions',
    );
    await initdb('--sync-only');
  } catch (cause) {
    await rm(fresh, { recursive: true, force: true });
    const detail =
      cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim().split('\n').at(-1) : String(cause);
    throw new DatabaseError('failed', `the database could not be made in ${dir}: ${detail}`, { cause });
  }
  await rename(fresh, clusterDirectory(dir));
  await syncDirectory(dir);
}

/** The characters that are allowed in quotes in PostgreSQL's own files. User names contain no others. */
const plainName = /^[\w.@$-]+$/;

/**
 * Sets who may log in, by the user id that the kernel reports for the connection (`peer`). Access to the socket is not
 * enough. The server writes this at every start, because databases of earlier versions trusted every connection to
 * their socket. Where users have no names, only the socket's directory protects it: it belongs to the one user that
 * runs both PostgreSQL and this process.
 */
export async function guardLogin(dir: string, account: Account | undefined): Promise<void> {
  const names = (await loginNames())?.filter((name) => plainName.test(name));
  const method = names === undefined ? 'trust' : 'peer map=ringfence';
  const roles = [superuser, serverRole];
  const lines = (names ?? []).flatMap((name) => roles.map((role) => `ringfence "${name}" ${role}\n`));
  await writeOwned(join(clusterDirectory(dir), 'pg_ident.conf'), lines.join(''), account);
  await writeOwned(join(clusterDirectory(dir), 'pg_hba.conf'), `local all ${roles.join(',')} ${method}\n`, account);
}

/** Whole or not at all, readable by PostgreSQL only. */
async function writeOwned(path: string, text: string, account: Account | undefined): Promise<void> {
  const fresh = `${path}.new`;
  await rm(fresh, { force: true });
  const handle = await open(fresh, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    if (account !== undefined) await handle.chown(account.uid, account.gid);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(fresh, path);
}

/** A private directory for the socket: inside the data directory, or in a short temporary one when that path is too long for a socket. */
export async function socketDirectory(
  dir: string,
  account: Account | undefined,
): Promise<{ path: string; temporary: boolean }> {
  const inside = join(dir, 'run');
  const temporary = Buffer.byteLength(inside) > longestSocketDirectory;
  const path = temporary ? await mkdtemp(join(tmpdir(), 'ringfence-')) : inside;
  await mkdir(path, { recursive: true });
  await give(path, account);
  return { path, temporary };
}

/** How the supervised database is reached through its private socket. */
export const socketUrl = (sockets: string): string =>
  `postgres://${serverRole}@/postgres?host=${encodeURIComponent(sockets)}`;

export interface PidFile {
  readonly pid: number;
  readonly sockets: string;
  /** `starting`, `ready`, `stopping` … */
  readonly status: string;
}

/** PostgreSQL's pid file; undefined when there is none. */
export async function readPidFile(dir: string): Promise<PidFile | undefined> {
  const text = await readFile(join(clusterDirectory(dir), 'postmaster.pid'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const lines = text.split('\n');
  const pid = Number.parseInt(lines[0] ?? '', 10);
  return pid > 0 ? { pid, sockets: lines[4] ?? '', status: (lines[7] ?? '').trim() } : undefined;
}

/** Whether this process is a PostgreSQL server on this directory, and not another process with a reused pid. */
export async function isPostmasterOf(dir: string, pid: number): Promise<boolean> {
  if (process.platform === 'linux') {
    const command = await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '');
    return command.split('\0').includes(clusterDirectory(dir));
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The URL and version of a running server's database; undefined when none is running. */
export async function runningUrl(dir: string): Promise<{ readonly url: string; readonly major: number } | undefined> {
  const [file, major] = [await readPidFile(dir), await clusterVersion(dir)];
  if (file?.status !== 'ready' || major === undefined) return undefined;
  return { url: socketUrl(file.sockets), major };
}
