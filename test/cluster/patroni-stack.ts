/**
 * Owns the failover stack of `packaging/cluster` on this machine: etcd, Patroni with PostgreSQL, and HAProxy, from the example's own files with other
 * addresses. Each database machine is a process namespace of its own, so that killing its first process is a power cut.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findPrograms } from '../../src/server/database/programs.ts';
import { databaseAccount, type Account } from '../lib/database-node.ts';
import { eventually } from '../lib/eventually.ts';
import { freePort } from '../lib/free-port.ts';
import { mortal } from '../lib/mortal.ts';

const run = promisify(execFile);
const example = (file: string): Promise<string> =>
  readFile(fileURLToPath(new URL(`../../packaging/cluster/${file}`, import.meta.url)), 'utf8');

export type NodeName = 'node-1' | 'node-2' | 'node-3';
export const nodeNames: readonly NodeName[] = ['node-1', 'node-2', 'node-3'];

export interface Member {
  readonly name: NodeName;
  readonly role: 'leader' | 'replica' | 'sync_standby';
  readonly state: string;
}

interface StackParts {
  readonly folder: string;
  readonly account: Account;
  readonly ports: ReadonlyMap<string, number>;
  readonly bin: string;
}

const isOver = (child: ChildProcess | undefined): boolean =>
  child === undefined || child.exitCode !== null || child.signalCode !== null;

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || isOver(child)) return;
  child.kill(signal);
  await once(child, 'exit');
}

/** The lines of an environment file, as systemd reads them. */
const environmentOf = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split('\n').flatMap((line): [string, string][] => {
      const [, name, value = ''] = /^(\w+)=(.*)$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, value.replace(/^"(.*)"$/, '$1')]];
    }),
  );

export class PatroniStack {
  readonly #parts: StackParts;
  readonly #etcd: ChildProcess[] = [];
  readonly #nodes = new Map<NodeName, ChildProcess>();
  #haproxy: ChildProcess | undefined;
  #output = '';

  private constructor(parts: StackParts) {
    this.#parts = parts;
  }

  /** A running cluster with a primary, two standbys and an empty database. */
  static async start(): Promise<PatroniStack> {
    const account = await databaseAccount();
    if (account === undefined) throw new Error('the failover stack is started by root');
    const folder = await mkdtemp(join(tmpdir(), 'rf-stack-'));
    await chown(folder, account.uid, account.gid);
    const ports = new Map<string, number>();
    for (const host of ['10.0.0.11', '10.0.0.12', '10.0.0.13'])
      for (const port of [2379, 2380, 5432, 8008]) ports.set(`${host}:${port}`, await freePort());
    ports.set('127.0.0.1:5432', await freePort());
    const stack = new PatroniStack({ folder, account, ports, bin: (await findPrograms({})).bin });
    try {
      await stack.#startAll();
      return stack;
    } catch (error) {
      await stack.stop();
      throw new Error(`the stack did not start: ${stack.#output.slice(-4_000)}`, { cause: error });
    }
  }

  async #startAll(): Promise<void> {
    const { folder, account } = this.#parts;
    for (const name of nodeNames) {
      await mkdir(join(folder, name));
      await chown(join(folder, name), account.uid, account.gid);
    }
    const files = await Promise.all(nodeNames.map((name) => this.#environment('etcd.env', name)));
    for (const environment of files)
      this.#etcd.push(this.#spawn(['etcd', '--logger=zap', '--log-level=error'], environment));
    await writeFile(join(this.#parts.folder, 'patroni.yml'), await example('patroni.yml'));
    for (const name of nodeNames) await this.startNode(name);
    const file = join(this.#parts.folder, 'haproxy.cfg');
    await writeFile(file, this.#here(await example('haproxy.cfg')));
    this.#haproxy = spawn(...mortal('/usr/sbin/haproxy', ['-db', '-f', file]), { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#listen(this.#haproxy);
    await this.isWhole();
    await this.#createDatabase();
  }

  async #createDatabase(): Promise<void> {
    const { folder, ports, bin } = this.#parts;
    const file = join(folder, 'database.sql');
    await writeFile(file, await example('database.sql'));
    const where = ['-h', '127.0.0.1', '-p', String(ports.get('127.0.0.1:5432')), '-U', 'postgres'];
    const env = { PATH: process.env['PATH'], PGPASSWORD: 'change-me', LC_ALL: 'C' };
    // HAProxy learns of the primary by its next check.
    await eventually('HAProxy leads to the primary', () =>
      run(join(bin, 'psql'), [...where, '-c', 'SELECT'], { env }).then(
        () => true,
        () => false,
      ),
    );
    await run(join(bin, 'psql'), [...where, '-v', 'ON_ERROR_STOP=1', '-v', 'password=change-me', '-f', file], { env });
  }

  /** A file of the example with the addresses of this machine. */
  #here(text: string): string {
    const port = (address: string): number => {
      const found = this.#parts.ports.get(address);
      if (found === undefined) throw new Error(`the example names an unknown address: ${address}`);
      return found;
    };
    return text
      .replaceAll(
        /addr (10\.0\.0\.1\d) port (\d+)/g,
        (_, host: string, of: string) => `addr 127.0.0.1 port ${port(`${host}:${of}`)}`,
      )
      .replaceAll(/(?:10\.0\.0\.1\d|127\.0\.0\.1):\d+/g, (address) => `127.0.0.1:${port(address)}`);
  }

  /** The environment of one machine: the first part of the file is that of the first machine. */
  async #environment(file: string, name: NodeName): Promise<Readonly<Record<string, string>>> {
    const [own = '', shared = ''] = (await example(file)).split('# The same on every machine.\n');
    const number = name.slice(-1);
    const mine = own.replaceAll('node-1', name).replaceAll('10.0.0.11', `10.0.0.1${number}`);
    const folder = join(this.#parts.folder, name);
    const data = { ETCD_DATA_DIR: join(folder, 'etcd'), PATRONI_POSTGRESQL_DATA_DIR: join(folder, 'postgres') };
    const kind = file === 'etcd.env' ? 'ETCD_' : 'PATRONI_';
    return {
      ...environmentOf(this.#here(mine + shared)),
      ...Object.fromEntries(Object.entries(data).filter(([key]) => key.startsWith(kind))),
      ...(kind === 'PATRONI_' && {
        PATRONI_POSTGRESQL_BIN_DIR: this.#parts.bin,
        PATRONI_POSTGRESQL_PGPASS: join(folder, 'pgpass'),
      }),
    };
  }

  #listen(child: ChildProcess): void {
    const hear = (chunk: Buffer): void => void (this.#output = (this.#output + chunk.toString()).slice(-20_000));
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
  }

  #spawn(command: readonly string[], environment: Readonly<Record<string, string>>): ChildProcess {
    const { uid, gid } = this.#parts.account;
    const own = ['unshare', '--mount-proc', '--pid', '--fork', '--kill-child=KILL', '--'];
    const user = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--pdeathsig', 'KILL', '--'];
    const [program = '', ...args] = [...own, ...user, ...command];
    const child = spawn(...mortal(program, args), {
      cwd: '/',
      env: { PATH: process.env['PATH'], LC_ALL: 'C', ETCD_UNSUPPORTED_ARCH: process.arch, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#listen(child);
    return child;
  }

  async startNode(name: NodeName): Promise<void> {
    const environment = await this.#environment('patroni.env', name);
    this.#nodes.set(name, this.#spawn(['patroni', join(this.#parts.folder, 'patroni.yml')], environment));
  }

  /** As a power cut does: Patroni and PostgreSQL are gone at once. */
  async kill(name: NodeName): Promise<void> {
    await end(this.#nodes.get(name), 'SIGKILL');
  }

  /** What a machine that runs says of the cluster. */
  async members(): Promise<readonly Member[]> {
    for (const name of nodeNames) {
      if (isOver(this.#nodes.get(name))) continue;
      const answer = await this.#ask(name, '/cluster').catch(() => undefined);
      if (answer?.ok === true) return ((await answer.json()) as { readonly members: readonly Member[] }).members;
    }
    return [];
  }

  #ask(name: NodeName, path: string, method = 'GET', body?: object): Promise<Response> {
    const port = this.#parts.ports.get(`10.0.0.1${name.slice(-1)}:8008`);
    return fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: { authorization: `Basic ${Buffer.from('patroni:change-me').toString('base64')}` },
      ...(body && { body: JSON.stringify(body) }),
    });
  }

  /** The primary, once there is one that answers. */
  async leader(): Promise<NodeName> {
    let found: NodeName | undefined;
    await eventually('a node is the primary', async () => {
      for (const name of nodeNames) {
        if (isOver(this.#nodes.get(name))) continue;
        const answer = await this.#ask(name, '/primary').catch(() => undefined);
        if (answer?.status === 200) found = name;
      }
      return found !== undefined;
    });
    return found as NodeName;
  }

  /** Waits until there are a primary and two standbys that follow it, of which one is synchronous where the mode wants it. */
  async isWhole({ synchronous = true } = {}): Promise<void> {
    let members: readonly Member[] = [];
    const isSo = async (): Promise<boolean> => {
      members = await this.members();
      const roles = new Set(members.map(({ role }) => role));
      const good = members.length === 3 && members.every(({ state }) => state === 'running' || state === 'streaming');
      return good && roles.has('leader') && roles.has('sync_standby') === synchronous;
    };
    await eventually(() => `the cluster is whole: ${JSON.stringify(members)} ${this.#output.slice(-2_000)}`, isSo);
  }

  /** From now on this primary sends nothing to its standbys. A standby that is about to connect again is waited for: it would get everything later. */
  async holdReplication(name: NodeName): Promise<void> {
    const standbys = nodeNames.length - 1;
    let senders: readonly number[] = [];
    await eventually(
      () => `${standbys} standbys follow the primary, not ${senders.length}`,
      async () => (senders = await this.#senders(name)).length === standbys,
    );
    for (const pid of senders) process.kill(pid, 'SIGSTOP');
  }

  /** The processes of this node that send to a standby what is written. */
  async #senders(name: NodeName): Promise<readonly number[]> {
    const own = join(this.#parts.folder, name);
    const pids = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
    const senders = await Promise.all(
      pids.map(async (pid) => {
        const [title, folder] = await Promise.all([
          readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => ''),
          readlink(`/proc/${pid}/cwd`).catch(() => ''),
        ]);
        return /walsender .* streaming/.test(title) && folder.startsWith(own) ? [Number(pid)] : [];
      }),
    );
    return senders.flat();
  }

  /** As `patronictl switchover` does. */
  async switchover(): Promise<void> {
    const leader = await this.leader();
    const answer = await this.#ask(leader, '/switchover', 'POST', { leader });
    if (!answer.ok) throw new Error(`no switchover: ${answer.status} ${await answer.text()}`);
  }

  /** As `patronictl edit-config -s synchronous_mode=…` does. */
  async setSynchronous(synchronous: boolean): Promise<void> {
    const answer = await this.#ask(await this.leader(), '/config', 'PATCH', { synchronous_mode: synchronous });
    if (!answer.ok) throw new Error(`no such setting: ${answer.status} ${await answer.text()}`);
    await this.isWhole({ synchronous });
  }

  /** The URLs of `server.env`: by HAProxy, and by the names of all machines. */
  async urls(): Promise<Readonly<Record<'byProxy' | 'byHosts', string>>> {
    const urls = [...this.#here(await example('server.env')).matchAll(/^#?RINGFENCE_DATABASE_URL=(.*)$/gm)];
    const [byProxy, byHosts] = urls.map(([, url = '']) => url);
    if (byProxy === undefined || byHosts === undefined) throw new Error('server.env lacks a URL');
    return { byProxy, byHosts };
  }

  async stop(): Promise<void> {
    for (const child of [this.#haproxy, ...this.#nodes.values(), ...this.#etcd]) await end(child, 'SIGKILL');
    await rm(this.#parts.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}
