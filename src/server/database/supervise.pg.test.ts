/**
 * Proves the promises of the supervised PostgreSQL: it starts after any kind of crash, runs unprivileged and isolated,
 * and restarts when it dies.
 */
import { asServer } from '../store/data/actor.ts';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { appendFile, chmod, chown, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Client } from 'pg';
import { asSuperuser } from '../../../test/lib/postgres.ts';
import { openStore, type Store } from '../store/open.ts';
import { problemOf } from '../store/store.fixture.ts';
import { addingAccount, chooseAccount } from './account.ts';
import { DatabaseError } from './errors.ts';
import { findPrograms } from './programs.ts';
import { openDatabase, type Database, type DatabaseOptions } from './supervise.ts';

/** A data directory that a server left in order: most tests begin with a copy, because making one takes longer than all that follows. */
let made: string;
beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), 'rf-db-'));
  await (await openDatabase({ dir: made })).stop();
});
afterAll(() => rm(made, { recursive: true, force: true }));

let dir: string;
beforeEach(async () => {
  const own = await mkdtemp(join(tmpdir(), 'rf-db-'));
  dir = own;
  // Last of all: an `afterEach` would come before what tests do when they have finished, while a database still writes there.
  onTestFinished(() => rm(own, { recursive: true, force: true }));
});

/** Stops at the end of the test, also when the test fails. */
async function open(options: Partial<DatabaseOptions> = {}): Promise<Database> {
  const database = await openDatabase({ dir, ...options });
  onTestFinished(() => database.stop());
  return database;
}

/** From now on a server has run here before. */
const copyMade = (): Buffer => execFileSync('cp', ['-a', join(made, 'postgres'), dir]);

async function storeOn(database: Database): Promise<Store> {
  const store = await openStore({ url: database.url, phase: 3 });
  onTestFinished(() => store.close());
  return store;
}

const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'done',
    (error: unknown) => error,
  );

const pidOf = ({ pid }: { readonly pid?: number | undefined }): number => pid ?? Number.NaN;
const asRoot = process.geteuid?.() === 0;

test('a fresh directory becomes a database, and what was written is there at the next start', async () => {
  const first = await open();
  const store = await openStore({ url: first.url, phase: 3 });
  await store.users.create({ username: 'olga' }, asServer);
  await store.close();
  await first.stop();
  const again = await storeOn(await open());
  expect(await again.users.byName('olga')).toBeDefined();
});

test('it is reached by a private socket only, and never runs as root', async () => {
  copyMade();
  const database = await open();
  const status = readFileSync(`/proc/${pidOf(database)}/status`, 'utf8');
  if (asRoot) expect(/^Uid:\t0\t/m.test(status)).toBe(false);
  expect((await stat(join(dir, 'run'))).mode & 0o777).toBe(0o700);
  expect((await stat(join(dir, 'postgres'))).mode & 0o777).toBe(0o700);
  const sockets = execFileSync('ss', ['-Hltnp'], { encoding: 'utf8' });
  expect(sockets).not.toContain(`pid=${pidOf(database)},`);
});

describe('the role that the server has', () => {
  /** In the database, by a connection of whoever the URL names. */
  const ask = async (url: string, text: string): Promise<readonly Record<string, unknown>[]> => {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  };

  test('runs no program, reads no file of the machine and makes no role, and the server works with it', async () => {
    const database = await open();
    await (await storeOn(database)).users.create({ username: 'olga' }, asServer);
    for (const attempt of [
      "COPY (SELECT '') TO PROGRAM 'id'",
      "SELECT pg_read_file('/etc/passwd')",
      'CREATE ROLE mine SUPERUSER',
      "ALTER SYSTEM SET archive_command = 'id'",
      'SET SESSION AUTHORIZATION ringfence',
    ])
      expect(await failure(ask(database.url, attempt)), attempt).toMatchObject({ code: '42501' });
  });

  test('gets the tables of a directory in which an earlier version did everything as superuser, also between two of ours', async () => {
    const first = await open();
    // As earlier versions did: the same role set up and served.
    const asBefore = await openStore({ url: asSuperuser(first.url), phase: 3 });
    const olga = await asBefore.users.create({ username: 'olga' }, asServer);
    await asBefore.close();
    // Somebody may have left functions there in the hope that a superuser calls them.
    await ask(
      first.url,
      "CREATE FUNCTION public.format(text, text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'ALTER ROLE ringfence_server SUPERUSER' $$",
    );
    const owners = (url: string) =>
      ask(
        url,
        `SELECT DISTINCT rolname, rolsuper FROM pg_roles o JOIN (
           SELECT relowner AS owner FROM pg_class WHERE relnamespace = 'public'::regnamespace
           UNION SELECT proowner FROM pg_proc WHERE pronamespace = 'public'::regnamespace) AS found ON owner = o.oid`,
      );
    expect(await owners(first.url)).toContainEqual({ rolname: 'ringfence', rolsuper: true });
    await first.stop();
    const again = await open();
    expect(await owners(again.url)).toEqual([{ rolname: 'ringfence_server', rolsuper: false }]);
    const store = await storeOn(again);
    expect((await store.users.byName('olga'))?.id).toBe(olga.id);
    await store.organizations.create(olga.id, { name: 'acme', description: '' }, asServer);
  });
});

test('a second server on the same directory is refused with the pid of the first, and does it no harm', async () => {
  copyMade();
  const database = await open();
  const error = await failure(openDatabase({ dir }));
  expect(error).toBeInstanceOf(DatabaseError);
  expect(error).toMatchObject({
    code: 'in_use',
    message: `another ringfence server (pid ${process.pid}) is using ${dir}`,
  });
  await (await storeOn(database)).ping();
  await database.stop();
  await open();
});

test('of servers that start together on one fresh directory exactly one gets it', async () => {
  const outcomes = await Promise.allSettled([1, 2, 3, 4].map(() => open()));
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  for (const outcome of outcomes)
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'in_use' });
});

describe('under root', () => {
  const nobody = 65_534;
  /** What a user of the machine gets who reaches the socket. */
  const login = (database: Database, uid: number): string => {
    const psql = [join(database.programs.bin, 'psql'), '-w', database.url, '-Atc', 'SELECT current_user'];
    const { stdout, stderr } = spawnSync(
      'setpriv',
      [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--', ...psql],
      { encoding: 'utf8', cwd: '/' },
    );
    return stdout.trim() || (stderr.trim().split('\n').at(-1) ?? '');
  };
  /** A database whose socket everybody can reach, as it should not be. */
  const openToAll = async (): Promise<Database> => {
    const database = await open({ settings: { unix_socket_permissions: '0777' } });
    for (const path of [dir, join(dir, 'run')]) await chmod(path, 0o711);
    return database;
  };
  const runsAs = (database: Database): number =>
    Number(/^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pidOf(database)}/status`, 'utf8'))?.[1]);

  beforeEach(() => {
    expect(asRoot, 'this is about root: run it as root').toBe(true);
  });

  test('nobody logs in but the server’s own user, though others reach the socket', async () => {
    copyMade();
    const database = await openToAll();
    expect(login(database, 0)).toBe('ringfence_server');
    for (const uid of [nobody, runsAs(database)]) expect(login(database, uid)).toMatch(/Peer authentication failed/);
    await (await storeOn(database)).ping();
  });

  test('a database of an earlier version, which trusted everybody, is guarded from the next start on', async () => {
    copyMade();
    const hba = join(dir, 'postgres', 'pg_hba.conf');
    await writeFile(hba, 'local all all trust\n');
    const database = await openToAll();
    expect(login(database, nobody)).toMatch(/Peer authentication failed/);
    expect(login(database, 0)).toBe('ringfence_server');
    const { mode, uid } = await stat(hba);
    expect([mode & 0o777, uid]).toEqual([0o600, runsAs(database)]);
  });

  test('no other user of the machine keeps the server from starting, however many names and locks it takes', async () => {
    copyMade();
    // As an operator might have made it: everybody may look inside.
    await chmod(dir, 0o755);
    const { dev, ino } = await stat(dir);
    const squatter = `
      const net = require('node:net'), { spawn } = require('node:child_process');
      // The abstract socket that was the lock of earlier versions; whoever asks gets an answer without an end.
      net.createServer((socket) => {
        socket.on('error', () => {});
        const more = () => { while (socket.write('1'.repeat(65536))); };
        socket.on('drain', more);
        more();
      }).listen('\\0ringfence-data-${dev}-${ino}', () => console.log('taken'));
      for (const path of ['${dir}', '${join(dir, 'lock')}', '${join(dir, 'postgres')}', '${join(dir, 'run')}'])
        spawn('flock', ['--nonblock', path, 'sleep', '600'], { stdio: 'ignore' });`;
    const drop = ['--reuid=65534', '--regid=65534', '--clear-groups', '--pdeathsig', 'KILL', '--'];
    const child = spawn('setpriv', [...drop, process.execPath, '-e', squatter], {
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    });
    onTestFinished(() => void process.kill(-pidOf(child), 'SIGKILL'));
    await once(child.stdout, 'data');
    // The lock of the directory itself: nobody may have it, and that harms nobody.
    await vi.waitFor(() => expect(spawnSync('flock', ['--nonblock', dir, 'true']).status).toBe(1), { timeout: 60_000 });
    const database = await open();
    expect((await stat(join(dir, 'lock'))).mode & 0o777).toBe(0o600);
    await (await storeOn(database)).ping();
  });

  test('a lock file that another user put there is named, not used', async () => {
    copyMade();
    await writeFile(join(dir, 'lock'), '');
    await chown(join(dir, 'lock'), nobody, nobody);
    expect(await failure(openDatabase({ dir }))).toMatchObject({
      code: 'failed',
      message: expect.stringContaining(`${join(dir, 'lock')} belongs to another user`),
    });
    await rm(join(dir, 'lock'));
    await symlink('/etc/hostname', join(dir, 'lock'));
    expect(await failure(openDatabase({ dir }))).toMatchObject({ code: 'ELOOP' });
  });

  test('data that belonged to nobody move to an account for databases, and are all there', async () => {
    copyMade();
    const first = await open();
    const account = runsAs(first);
    expect(account).not.toBe(nobody);
    const store = await openStore({ url: first.url, phase: 3 });
    await store.users.create({ username: 'olga' }, asServer);
    await store.close();
    await first.stop();
    execFileSync('chown', ['-R', `${nobody}:${nobody}`, join(dir, 'postgres'), join(dir, 'run')]);
    const again = await open();
    expect(runsAs(again)).toBe(account);
    expect(await (await storeOn(again)).users.byName('olga')).toBeDefined();
  });

  test('the account is one of our own, which is made if need be; where that fails, postgres with a warning, or one line says what to do', async () => {
    const passwd = join(dir, 'passwd');
    const line = (name: string, uid: number): string => `${name}:x:${uid}:${uid}::/:/\n`;
    const warnings: string[] = [];
    const onWarning = (message: string): unknown => warnings.push(message);
    const fails = (): Promise<void> => Promise.reject(Object.assign(new Error('no useradd'), { code: 'ENOENT' }));
    const choose = async (names: readonly string[], add: () => Promise<void>) => {
      await writeFile(passwd, ['root', ...names].map((name, uid) => line(name, uid)).join(''));
      return chooseAccount(join(dir, 'nothing'), { passwd, add, onWarning });
    };
    expect(await choose(['postgres', 'ringfence'], fails)).toMatchObject({ name: 'ringfence' });
    expect(await choose(['postgres'], () => appendFile(passwd, line('ringfence', 77)))).toEqual({
      name: 'ringfence',
      uid: 77,
      gid: 77,
    });
    expect(warnings).toEqual([]);
    expect(await choose(['postgres'], fails)).toMatchObject({ name: 'postgres' });
    expect(warnings).toEqual([expect.stringMatching(/as the user postgres\. Whoever else .*useradd --system/)]);
    expect(await failure(choose(['nobody'], fails))).toMatchObject({
      message: expect.stringContaining('useradd --system'),
    });
  });

  test('servers that start at once make one account, whose number stays', () => {
    const etc = join(dir, 'etc');
    execFileSync('cp', ['-a', '/etc', etc]);
    execFileSync('sed', [
      '-i',
      '/^ringfence:/d',
      ...['passwd', 'group', 'shadow', 'gshadow'].map((file) => join(etc, file)),
    ]);
    const atOnce =
      'mount --bind "$1" /etc; shift; for each in 1 2 3 4 5 6 7 8; do ("$@" >/dev/null && id -u ringfence) & done; wait';
    const told = execFileSync('unshare', ['--mount', 'sh', '-c', atOnce, 'sh', etc, ...addingAccount], {
      encoding: 'utf8',
    });
    const numbers = told.trim().split('\n');
    expect(numbers).toHaveLength(8);
    expect(new Set(numbers).size).toBe(1);
  });

  test('data of an account that others share move to the account of our own, as the server starts, and are all there', async () => {
    const first = await open();
    const store = await openStore({ url: first.url, phase: 3 });
    await store.users.create({ username: 'olga' }, asServer);
    await store.close();
    await first.stop();
    const uidOf = (name: string): number => Number(execFileSync('id', ['-u', name], { encoding: 'utf8' }));
    execFileSync('chown', ['-R', `${uidOf('postgres')}:${uidOf('postgres')}`, join(dir, 'postgres'), join(dir, 'run')]);
    const again = await open();
    expect(runsAs(again)).toBe(uidOf('ringfence'));
    // Who has the account of another PostgreSQL can no longer say who logs in, also with a way to the directory.
    await chmod(dir, 0o711);
    const hba = join(dir, 'postgres', 'pg_hba.conf');
    const append = ['sh', '-c', 'echo "local all all trust" >> "$1"', 'sh', hba];
    const drop = [`--reuid=${uidOf('postgres')}`, '--clear-groups', '--regid=65534', '--', ...append];
    expect(spawnSync('setpriv', drop, { encoding: 'utf8' }).status).not.toBe(0);
    expect(await (await storeOn(again)).users.byName('olga')).toBeDefined();
  });

  test('data of such an account stay where they are if there is no other, with a warning', async () => {
    const [passwd, data] = [join(dir, 'passwd'), join(dir, 'data')];
    await writeFile(passwd, `root:x:0:0::/:/\nnobody:x:${nobody}:${nobody}::/:/\n`);
    await mkdir(data);
    execFileSync('chown', [`${nobody}:${nobody}`, data]);
    const warnings: string[] = [];
    const add = (): Promise<void> => Promise.reject(Object.assign(new Error('no useradd'), { code: 'ENOENT' }));
    const account = await chooseAccount(data, { passwd, add, onWarning: (message) => warnings.push(message) });
    expect(account?.uid).toBe(nobody);
    expect(warnings).toEqual([expect.stringContaining('useradd --system')]);
  });
});

describe('directories that make trouble', () => {
  test('a path too long for a socket', async () => {
    const deep = join(dir, 'd'.repeat(100), 'e'.repeat(100));
    await mkdir(deep, { recursive: true });
    if (asRoot) await chmod(dir, 0o711);
    const database = await openDatabase({ dir: deep });
    const store = await openStore({ url: database.url, phase: 3 });
    await store.ping();
    await store.close();
    const sockets = new URL(database.url.replace('@/', '@x/')).searchParams.get('host') ?? '';
    expect(sockets.length).toBeLessThan(90);
    await database.stop();
    expect(existsSync(sockets)).toBe(false);
  });

  test("below a directory that only root may enter, as root's temporary directories are", async () => {
    expect(asRoot, 'this is about root: run it as root').toBe(true);
    const inner = join(dir, 'private', 'data');
    await mkdir(inner, { recursive: true });
    await chmod(join(dir, 'private'), 0o700);
    const database = await open({ dir: inner });
    await (await storeOn(database)).ping();
    // One capability, to pass through; not one more.
    const status = readFileSync(`/proc/${pidOf(database)}/status`, 'utf8');
    expect(/^CapEff:\t0*4$/m.test(status)).toBe(true);
    expect(/^Uid:\t0\t/m.test(status)).toBe(false);
  });

  test('the remains of a start that was cut short', async () => {
    await mkdir(join(dir, 'postgres.new-1'));
    await writeFile(join(dir, 'postgres.new-1', 'PG_VERSION'), '15\n');
    await open();
    expect((await readdir(dir)).toSorted()).toEqual(['lock', 'postgres', 'run']);
  });

  test('the remains of a start that was killed, whose initdb still writes there while it ends', async () => {
    const base = join(dir, 'postgres.new-1', 'base');
    await mkdir(base, { recursive: true });
    const write = `i=0; while [ $i -lt 30000 ]; do i=$((i+1)); : > "${base}/$i" || exit 0; done`;
    const writing = spawn('sh', ['-c', write], { stdio: 'ignore' });
    onTestFinished(() => void writing.kill('SIGKILL'));
    await vi.waitFor(async () => expect(await readdir(base)).not.toEqual([]), { timeout: 60_000 });
    await open();
    expect((await readdir(dir)).toSorted()).toEqual(['lock', 'postgres', 'run']);
  });

  test('a database of another version', async () => {
    copyMade();
    await writeFile(join(dir, 'postgres', 'PG_VERSION'), '9\n');
    const error = await failure(openDatabase({ dir }));
    expect(error).toMatchObject({
      code: 'no_programs',
      message: expect.stringMatching(/made by PostgreSQL 9, but only version \d+/),
    });
  });

  test('a place where the kernel lets nobody make one', async () => {
    expect(await failure(openDatabase({ dir: '/proc/ringfence/data' }))).toMatchObject({ code: 'ENOENT' });
    const below = join(dir, 'file', 'data');
    await writeFile(join(dir, 'file'), '');
    expect(await failure(openDatabase({ dir: below }))).toMatchObject({ code: 'ENOTDIR' });
  });

  test('no PostgreSQL programs', async () => {
    const error = await failure(openDatabase({ dir, bin: join(dir, 'nothing') }));
    expect(error).toMatchObject({ code: 'no_programs', message: expect.stringMatching(/--postgres-bin/) });
    const none = { debian: join(dir, 'usr'), path: `${dir}:${join(dir, 'bin')}` };
    expect(await failure(findPrograms(none))).toMatchObject({
      code: 'no_programs',
      message: expect.stringMatching(/^no PostgreSQL programs found: .*apt install postgresql.*--database-url/),
    });
    // The lock was given back.
    await open();
  });
});

describe('when PostgreSQL dies', () => {
  test('it comes back by itself; until then the store says unavailable, afterwards everything acknowledged is there', async () => {
    const lines: string[] = [];
    copyMade();
    const database = await open({ log: (level, message) => lines.push(`${level}: ${message}`) });
    const store = await storeOn(database);
    const names: string[] = [];
    let refused = 0;
    for (let round = 0; round < 3; round += 1) {
      const killed = pidOf(database);
      process.kill(killed, 'SIGKILL');
      // For a moment the processes it left behind may still answer, and what they answer counts.
      for (let attempt = 0, written = false; !written || pidOf(database) === killed; attempt += 1) {
        const username = `user ${round} ${attempt}`;
        const outcome = await failure(store.users.create({ username }, asServer));
        written = outcome === 'done';
        if (written) names.push(username);
        else {
          expect(outcome).toMatchObject({
            problem: { code: expect.stringMatching(/^(unavailable|outcome_unknown)$/) },
          });
          refused += 1;
        }
        expect(attempt).toBeLessThan(10_000);
        await sleep(10);
      }
    }
    expect(refused).toBeGreaterThan(0);
    const stored = (await store.users.list()).map(({ username }) => username);
    for (const name of names) expect(stored).toContain(name);
    expect(lines.filter((line) => line.startsWith('error: PostgreSQL ended unexpectedly'))).toHaveLength(3);
    expect(lines.filter((line) => line === 'info: PostgreSQL is back')).toHaveLength(3);
  });

  test('hints find their way again', async () => {
    copyMade();
    const database = await open();
    const [here, there] = [await storeOn(database), await storeOn(database)];
    const killed = pidOf(database);
    process.kill(killed, 'SIGKILL');
    // The processes it left behind may still answer for a moment: only what a new one answers lasts.
    await vi.waitFor(() => expect([killed, undefined]).not.toContain(database.pid), { timeout: 60_000, interval: 50 });
    const owner = await vi.waitFor(() => here.users.create({ username: 'olga' }, asServer), {
      timeout: 60_000,
      interval: 50,
    });
    const { id: org } = await here.organizations.create(owner.id, { name: '', description: '' }, asServer);
    const heard: string[] = [];
    there.log.onHint(({ organizations }) => heard.push(...organizations));
    await vi.waitFor(
      async () => {
        await here.organizations.update(
          org,
          { user_id: owner.id, ...asServer },
          { name: `${heard.length} ${performance.now()}` },
        );
        expect(heard).toContain(org);
      },
      { timeout: 60_000, interval: 100 },
    );
  });

  test('stopping it while it is down is stopping', async () => {
    copyMade();
    const database = await openDatabase({ dir });
    process.kill(pidOf(database), 'SIGKILL');
    await database.stop();
    expect((await open()).pid).toBeGreaterThan(0);
  });
});

test('a database that cannot be reached is unavailable, not a fault', async () => {
  const url = `postgres://ringfence@/postgres?host=${encodeURIComponent(dir)}`;
  expect(await problemOf(openStore({ url, phase: 3 }))).toEqual({ code: 'unavailable' });
});

test('a full disk is told as such, and passes', async () => {
  // A filesystem of its own, small enough to fill.
  const disk = join(dir, 'disk');
  await mkdir(disk, { mode: 0o711 });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=120m,mode=711', 'tmpfs', disk], { stdio: 'pipe' });
  } catch {
    // Only root may mount; elsewhere there is nothing to prove it with.
    return;
  }
  await chmod(dir, 0o711);
  let database: Database | undefined;
  try {
    database = await openDatabase({ dir: disk });
    const store = await openStore({ url: database.url, phase: 3 });
    const { id } = await store.users.create({ username: 'olga' }, asServer);
    const { id: org } = await store.organizations.create(id, { name: '', description: '' }, asServer);
    const write = (text: string) =>
      store.organizations.update(org, { user_id: id, ...asServer }, { description: text });
    execFileSync('sh', ['-c', `cat /dev/zero > ${join(disk, 'filler')} 2>/dev/null; true`]);
    const problem = await problemOf(
      (async () => {
        for (let index = 0; index < 20_000; index += 1) await write(`${index}`.padEnd(2000, 'x'));
      })(),
    );
    expect(problem).toEqual({ code: 'storage_full' });
    await rm(join(disk, 'filler'));
    await vi.waitFor(() => write('there is room again'), { timeout: 60_000, interval: 100 });
    expect((await store.organizations.get(org)).description).toBe('there is room again');
    await store.close();
  } finally {
    await database?.stop();
    execFileSync('umount', ['-l', disk]);
  }
});
