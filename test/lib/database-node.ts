/** Owns the PostgreSQL servers of a cluster in tests: a primary and its standbys on ports of their own, killed and promoted at will. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chown, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, type QueryResultRow } from 'pg';
import { findPrograms } from '../../src/server/database/programs.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { mortal } from './mortal.ts';
import type { Namespace } from './netns.ts';

const run = promisify(execFile);

/** PostgreSQL and PgBouncer refuse to run as root. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

export async function databaseAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const line = (await readFile('/etc/passwd', 'utf8')).split('\n').find((entry) => entry.startsWith('postgres:'));
  const [, , uid, gid] = line?.split(':') ?? [];
  if (uid === undefined || gid === undefined) throw new Error('there is no user postgres');
  return { uid: Number(uid), gid: Number(gid) };
}

/** Starts a program as that user; it ends with the test. */
export const asAccount = (
  account: Account | undefined,
  program: string,
  args: readonly string[],
): readonly [string, readonly string[]] =>
  account === undefined
    ? mortal(program, args)
    : mortal('setpriv', [
        `--reuid=${account.uid}`,
        `--regid=${account.gid}`,
        '--clear-groups',
        '--pdeathsig',
        'KILL',
        '--',
        program,
        ...args,
      ]);

/** Where a server listens, if not on the loopback of this machine. */
export interface DatabasePlace {
  readonly namespace: Namespace;
  readonly address: string;
}

export class DatabaseNode {
  readonly port: number;
  readonly #place: DatabasePlace | undefined;
  readonly #bin: string;
  readonly #account: Account | undefined;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  private constructor(parts: {
    port: number;
    bin: string;
    account: Account | undefined;
    folder: string;
    place?: DatabasePlace | undefined;
  }) {
    this.port = parts.port;
    this.#place = parts.place;
    this.#bin = parts.bin;
    this.#account = parts.account;
    this.#folder = parts.folder;
  }

  static async #make(place?: DatabasePlace): Promise<DatabaseNode> {
    const account = await databaseAccount();
    const folder = await mkdtemp(join(tmpdir(), 'rf-node-'));
    if (account !== undefined) await chown(folder, account.uid, account.gid);
    return new DatabaseNode({ port: await freePort(), bin: (await findPrograms({})).bin, account, folder, place });
  }

  /** A new, running primary, which lets everybody in who reaches it. */
  static async primary(settings: Readonly<Record<string, string>> = {}, place?: DatabasePlace): Promise<DatabaseNode> {
    const node = await DatabaseNode.#make(place);
    await node.#run('initdb', [
      '-D',
      node.#data,
      '-U',
      'ringfence',
      '-A',
      'trust',
      '--no-sync',
      '--no-locale',
      '-E',
      'UTF8',
    ]);
    await node.configure({
      fsync: 'off',
      wal_level: 'replica',
      hot_standby: 'on',
      wal_keep_size: '256MB',
      ...settings,
    });
    await appendFile(join(node.#data, 'pg_hba.conf'), 'host all all all trust\n');
    await node.start();
    return node;
  }

  /** A running copy that follows this server. */
  async standby(name = 'standby'): Promise<DatabaseNode> {
    const node = await DatabaseNode.#make();
    await node.follow(this, name);
    return node;
  }

  /** Copies another server in place of its own data, which is lost, and follows it from then on. It must not be running. */
  async follow(primary: DatabaseNode, name = 'standby'): Promise<void> {
    await rm(this.#data, { recursive: true, force: true });
    await this.#run('pg_basebackup', [
      '-D',
      this.#data,
      '-d',
      `postgres://ringfence@127.0.0.1:${primary.port}/postgres?application_name=${name}`,
      '-R',
      '--checkpoint=fast',
      '--no-sync',
    ]);
    await this.start();
  }

  get #data(): string {
    return join(this.#folder, 'data');
  }

  get url(): string {
    return `postgres://ringfence@${this.#address}:${this.port}/postgres`;
  }

  get #address(): string {
    return this.#place?.address ?? '127.0.0.1';
  }

  async #run(program: string, args: readonly string[]): Promise<void> {
    const [command, all] = asAccount(this.#account, join(this.#bin, program), args);
    await run(command, all, { cwd: '/', env: { PATH: process.env['PATH'], LC_ALL: 'C' } });
  }

  /** Settings of the next start, or of a reload. */
  async configure(settings: Readonly<Record<string, string>>): Promise<void> {
    const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
    await appendFile(join(this.#data, 'postgresql.auto.conf'), lines.join(''));
  }

  async start(): Promise<void> {
    const args = ['-D', this.#data, '-p', String(this.port), '-c', `listen_addresses=${this.#address}`];
    const own = [
      '-c',
      `unix_socket_directories=${this.#folder}`,
      '-c',
      'shared_buffers=16MB',
      '-c',
      'log_min_messages=fatal',
    ];
    const [program, all] = asAccount(this.#account, join(this.#bin, 'postgres'), [...args, ...own]);
    const inside = this.#place?.namespace.inside([program, ...all]);
    this.#child = spawn(inside?.[0] ?? program, inside?.slice(1) ?? all, {
      cwd: '/',
      env: { PATH: process.env['PATH'], LC_ALL: 'C' },
      stdio: 'ignore',
    });
    await eventually('PostgreSQL answers', () =>
      this.query('SELECT').then(
        () => true,
        () => false,
      ),
    );
  }

  /** On a connection of its own, which needs no network. */
  async query<Row extends QueryResultRow>(text: string): Promise<readonly Row[]> {
    const client = new Client({ host: this.#folder, port: this.port, user: 'ringfence', database: 'postgres' });
    client.on('error', () => {});
    try {
      await client.connect();
      return (await client.query<Row>(text)).rows;
    } finally {
      await client.end();
    }
  }

  async promote(): Promise<void> {
    await this.query('SELECT pg_promote(true, 60)');
  }

  async reload(settings: Readonly<Record<string, string>>): Promise<void> {
    await this.configure(settings);
    await this.query('SELECT pg_reload_conf()');
  }

  /** As a crash does: nothing is written out, and clients see their connections break. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await once(child, 'exit');
  }

  /** A copy of its files at rest. It runs again afterwards. */
  async snapshot(): Promise<string> {
    const copy = join(this.#folder, 'snapshot');
    await this.kill('SIGINT');
    await run('cp', ['-a', this.#data, copy]);
    await this.start();
    return copy;
  }

  /** Puts a copy in place of its files, as after a crash. */
  async restore(snapshot: string): Promise<void> {
    await this.kill();
    await rm(this.#data, { recursive: true, force: true });
    await run('cp', ['-a', snapshot, this.#data]);
    await this.start();
  }

  async remove(): Promise<void> {
    await this.kill('SIGINT');
    await rm(this.#folder, { recursive: true, force: true });
  }
}
