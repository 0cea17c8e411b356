/**
 * Owns the life of the supervised PostgreSQL: it starts with the server, restarts when it dies, and ends with the
 * server however that ends.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { access, mkdir, realpath, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { setUpRole } from '../store/schema/set-up.ts';
import { chooseAccount, launcher, type Launch } from './account.ts';
import {
  clusterDirectory,
  clusterVersion,
  guardLogin,
  isPostmasterOf,
  makeCluster,
  readPidFile,
  serverRole,
  socketUrl,
  socketDirectory,
  superuser,
} from './cluster.ts';
import { DatabaseError } from './errors.ts';
import { lockDirectory } from './lock.ts';
import { findPrograms, type Programs } from './programs.ts';

export interface DatabaseOptions {
  /** The server's data directory; made when absent. */
  readonly dir: string;
  /** The directory of PostgreSQL's programs; searched when absent. */
  readonly bin?: string | undefined;
  /** Further settings of PostgreSQL, over the ones below. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  readonly log?: ((level: 'info' | 'warn' | 'error', message: string) => void) | undefined;
}

export interface Database {
  /** A connection string for the store. It stays the same across restarts of PostgreSQL. */
  readonly url: string;
  readonly programs: Programs;
  /** PostgreSQL's process id while it runs. */
  readonly pid: number | undefined;
  /** Ends PostgreSQL with everything written out, and gives up the directory. */
  stop(): Promise<void>;
}

/** Waits between restarts of a PostgreSQL that keeps dying; a run of `healthyMs` starts over. */
const backOffMs = [0, 100, 250, 500, 1000, 2000, 5000];
const healthyMs = 30_000;

/** Durable always; small, because it serves one program; quiet, because statements may hold what does not belong in a log. */
const settings: Readonly<Record<string, string>> = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  max_connections: '200',
  shared_buffers: '128MB',
  jit: 'off',
  // Plans follow tables that grow quickly; all that is read often fits into memory.
  autovacuum_naptime: '5s',
  random_page_cost: '1.1',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_min_messages: 'warning',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
  log_line_prefix: '',
  logging_collector: 'off',
};

class Supervisor implements Database {
  readonly url: string;
  readonly programs: Programs;
  readonly #dir: string;
  readonly #as: (command: readonly string[], endsWithUs: boolean) => Launch;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #log: (level: 'info' | 'warn' | 'error', message: string) => void;
  readonly #wakeUp = new AbortController();
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #loop: Promise<void> = Promise.resolve();
  #lastLine = '';
  #stopping = false;

  constructor(parts: {
    options: DatabaseOptions;
    dir: string;
    programs: Programs;
    launch: (command: readonly string[], endsWithUs: boolean) => Launch;
    sockets: string;
  }) {
    this.programs = parts.programs;
    this.#dir = parts.dir;
    this.#as = parts.launch;
    this.#settings = { ...settings, ...parts.options.settings, unix_socket_directories: parts.sockets };
    this.#log = parts.options.log ?? (() => {});
    this.url = socketUrl(parts.sockets);
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts it and waits until it takes connections; afterwards keeps it running. Recovery after a crash may take its time. */
  async start(): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      await this.#awaitOrphan();
      this.#launch();
      if (await this.#awaitReady()) break;
      // The remains of a killed PostgreSQL hold its shared memory for a moment longer: try again.
      if (attempt >= 20) throw new DatabaseError('failed', `PostgreSQL does not start: ${this.#lastLine}`);
      await sleep(Math.min(50 * 2 ** attempt, 1000));
    }
    this.#loop = this.#keepRunning();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wakeUp.abort();
    const child = this.#child;
    for (const [signal, timeoutMs] of [
      ['SIGINT', 20_000] as const,
      ['SIGQUIT', 5_000] as const,
      ['SIGKILL', 5_000] as const,
    ]) {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) break;
      child.kill(signal);
      await Promise.race([this.#exited, sleep(timeoutMs, undefined, { ref: false })]);
    }
    await this.#loop;
  }

  /** Restarts it whenever it ends by itself; meanwhile callers of the store see `unavailable`. */
  async #keepRunning(): Promise<void> {
    let failures = 0;
    while (!this.#stopping) {
      const startedAt = performance.now();
      await this.#exited;
      if (this.#stopping) return;
      failures = performance.now() - startedAt > healthyMs ? 0 : failures + 1;
      const wait = backOffMs[Math.min(failures, backOffMs.length - 1)] ?? 0;
      this.#log(
        'error',
        `PostgreSQL ended unexpectedly (${this.#lastLine || 'no message'}); starting it again in ${wait} ms`,
      );
      await sleep(wait, undefined, { signal: this.#wakeUp.signal }).catch(() => {});
      if (this.#stopping) return;
      await this.#awaitOrphan();
      this.#launch();
      if (await this.#awaitReady()) this.#log('info', 'PostgreSQL is back');
    }
  }

  #launch(): void {
    const data = clusterDirectory(this.#dir);
    const options = Object.entries(this.#settings);
    const command = [
      join(this.programs.bin, 'postgres'),
      '-D',
      data,
      ...options.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ];
    const { program, args, options: as } = this.#as(command, true);
    if (this.#stopping) return;
    const child = spawn(program, args, {
      ...as,
      cwd: '/',
      // In a session of its own: Ctrl-C in the server's terminal must not end it before the server has finished.
      detached: true,
      env: { PATH: process.env['PATH'], LC_ALL: 'C' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#lastLine = error.message;
        resolve();
      });
      child.once('exit', () => resolve());
    });
    createInterface({ input: child.stderr }).on('line', (line) => this.#heard(line));
  }

  #heard(line: string): void {
    if (/^(PANIC|FATAL|ERROR):/.test(line)) this.#lastLine = line.trim();
    // Connections refused while it starts or stops are the store's business, and expected.
    if (/^(PANIC|WARNING):/.test(line)) this.#log('warn', `PostgreSQL: ${line.trim()}`);
  }

  /** True once it is ready; false when it ended instead. */
  async #awaitReady(): Promise<boolean> {
    const child = this.#child;
    for (;;) {
      // One without a number was never started; one with an exit code or a signal has ended.
      if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return false;
      const file = await readPidFile(this.#dir);
      if (file?.pid === child.pid && file.status === 'ready') return true;
      await sleep(10);
    }
  }

  /**
   * Waits for a PostgreSQL that a killed server left behind. The kernel has already signalled it to stop; after 5 and
   * 15 seconds this signals it again. We hold the directory's lock, so no other server uses it.
   */
  async #awaitOrphan(): Promise<void> {
    const file = await readPidFile(this.#dir);
    if (file === undefined) return;
    for (let waited = 0; await isPostmasterOf(this.#dir, file.pid); waited += 20) {
      if (waited === 5000 || waited === 15_000) {
        this.#log('warn', `stopping the PostgreSQL (pid ${file.pid}) that an earlier server left behind`);
        process.kill(file.pid, waited === 5000 ? 'SIGINT' : 'SIGQUIT');
      }
      if (waited > 30_000)
        throw new DatabaseError('failed', `another PostgreSQL (pid ${file.pid}) is running on ${this.#dir}`);
      await sleep(20);
    }
  }
}

/** With its parents. Node's own way of doing that never comes back where the kernel says that a file cannot be, as in /proc. */
async function makeDirectory(dir: string, mode: number): Promise<void> {
  try {
    await mkdir(dir, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const parent = dirname(dir);
    const known = await access(parent).then(
      () => true,
      () => false,
    );
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || known || parent === dir) throw error;
    await makeDirectory(parent, mode);
    await mkdir(dir, { mode });
  }
}

/** Opens the database in a data directory, making it first if need be. Fails with `DatabaseError`; a message is one line. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  // Root's directory must let the unprivileged account through to the cluster inside; what is private in it protects itself.
  await makeDirectory(options.dir, process.geteuid?.() === 0 ? 0o711 : 0o700);
  const dir = await realpath(options.dir);
  const lock = await lockDirectory(dir, (why) => {
    options.log?.('error', why);
  });
  let sockets: { path: string; temporary: boolean } | undefined;
  const giveUp = async (): Promise<void> => {
    if (sockets?.temporary === true) await rm(sockets.path, { recursive: true, force: true });
    await lock.release();
  };
  try {
    const account = await chooseAccount(clusterDirectory(dir), {
      onWarning: (message) => options.log?.('warn', message),
    });
    const launch = await launcher(dir, account);
    const major = await clusterVersion(dir);
    const programs = await findPrograms({ bin: options.bin, major });
    if (major === undefined) await makeCluster(dir, { programs, account, launch });
    await guardLogin(dir, account);
    sockets = await socketDirectory(dir, account);
    const supervisor = new Supervisor({ options, dir, programs, launch, sockets: sockets.path });
    const stop = async (): Promise<void> => {
      await supervisor.stop();
      await giveUp();
    };
    try {
      await supervisor.start();
      await setUpRole({ host: sockets.path, superuser, role: serverRole }).catch((cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause);
        throw new DatabaseError('failed', `the database cannot be set up: ${reason}`, { cause });
      });
    } catch (error) {
      await supervisor.stop();
      throw error;
    }
    return {
      url: supervisor.url,
      programs,
      get pid() {
        return supervisor.pid;
      },
      stop,
    };
  } catch (error) {
    await giveUp();
    throw error;
  }
}
