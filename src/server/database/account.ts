/**
 * Owns the account that PostgreSQL runs as. PostgreSQL refuses to run as root, so root starts it as an unprivileged
 * account. Also owns who may log in.
 */
import { execFile } from 'node:child_process';
import { access, readFile, stat } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { DatabaseError } from './errors.ts';

const run = promisify(execFile);

export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** How to start a program as the account; `options` are for `spawn`. */
export interface Launch {
  readonly program: string;
  readonly args: readonly string[];
  readonly options: { readonly uid?: number; readonly gid?: number };
}

/** Whoever runs as PostgreSQL's account owns the data, and decides who may log in. So it is an account of our own. */
const own = 'ringfence';
/** Accounts that other programs have too: another PostgreSQL of the machine, or anything. */
const shared: ReadonlySet<string> = new Set(['postgres', 'nobody']);
const setpriv = '/usr/bin/setpriv';

async function accounts(passwd = '/etc/passwd'): Promise<Account[]> {
  const text = await readFile(passwd, 'utf8').catch(() => '');
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    return name !== undefined && uid !== undefined && gid !== undefined
      ? [{ name, uid: Number(uid), gid: Number(gid) }]
      : [];
  });
}

/**
 * As the package does it. Servers that start at once take turns: `useradd` looks for the name before it waits for its own lock, and
 * would then give the account of another another number. Only root can open the file that they lock.
 */
export const addingAccount: readonly string[] = [
  'flock',
  '/etc/.pwd.lock',
  'sh',
  '-c',
  `id -u ${own} 2>/dev/null || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin ${own}`,
];

async function addAccount(): Promise<void> {
  const [program = '', ...args] = addingAccount;
  await run(program, args);
}

export interface AccountOptions {
  readonly passwd?: string;
  /** Makes the account `ringfence`. */
  readonly add?: () => Promise<void>;
  readonly onWarning?: (message: string) => void;
}

const makeOne = `make the user ${own} (useradd --system --user-group ${own})`;

/** The account of our own, made if need be; undefined where that fails. */
async function ownAccount({ passwd, add = addAccount }: AccountOptions): Promise<Account | undefined> {
  const find = async (): Promise<Account | undefined> =>
    (await accounts(passwd)).find(({ name, uid }) => name === own && uid !== 0);
  for (let attempt = 0; attempt < 10; attempt += 1) {
    const found = await find();
    if (found !== undefined) return found;
    const failed = await add().then(
      () => undefined,
      (error: unknown) => error as { readonly code?: unknown },
    );
    // 1 and 10: another program changes the accounts right now. 9: it made this one.
    if (failed !== undefined && ![1, 9, 10].includes(Number(failed.code))) break;
    if (failed !== undefined) await sleep(200);
  }
  return find();
}

/**
 * Undefined when this process is not root: PostgreSQL then runs as the same user. An existing data directory keeps its
 * owner, unless that is an account that others share: such data moves to the account of our own.
 */
export async function chooseAccount(
  clusterDirectory: string,
  options: AccountOptions = {},
): Promise<Account | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  const owner = await stat(clusterDirectory).catch(() => undefined);
  const isNew = owner === undefined || owner.uid === 0;
  const known = await accounts(options.passwd);
  const name = known.find(({ uid }) => uid === owner?.uid)?.name ?? String(owner?.uid);
  if (!isNew && !shared.has(name)) return { name, uid: owner.uid, gid: owner.gid };
  const fit = await ownAccount(options);
  if (fit !== undefined) {
    if (!isNew) await giveAll(clusterDirectory, fit);
    return fit;
  }
  const other = isNew ? known.find((account) => account.name === 'postgres') : { name, uid: owner.uid, gid: owner.gid };
  if (other === undefined)
    throw new DatabaseError(
      'failed',
      `PostgreSQL cannot run as root, and there is no user ${own}: ${makeOne}, or start as another user`,
    );
  options.onWarning?.(
    `PostgreSQL runs as the user ${other.name}. Whoever else runs as ${other.name} can read and change the data: ${makeOne} and start again`,
  );
  return other;
}

/**
 * Uses the system's own program, which follows no links even if somebody creates one meanwhile, and changes the
 * directory itself last: after an interruption, the next start runs it again.
 */
async function giveAll(directory: string, { uid, gid }: Account): Promise<void> {
  await run('chown', ['-R', '-h', '-P', `${uid}:${gid}`, directory]);
}

/**
 * The user names that may log in to the database: this process's user, and root, which may do anything anyway.
 * Undefined when this process's user has no name; then PostgreSQL cannot identify who connects.
 */
export async function loginNames(): Promise<readonly string[] | undefined> {
  const root = (await accounts()).find(({ uid }) => uid === 0)?.name ?? 'root';
  try {
    return [...new Set([userInfo().username, root])];
  } catch {
    return undefined;
  }
}

/** The directory on the way that the account may not enter; undefined when it can walk all the way down. */
async function obstacle(dir: string, account: Account): Promise<string | undefined> {
  for (let path = resolve(dir); ; path = dirname(path)) {
    const { mode, uid, gid } = await stat(path);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) return path;
    if (path === dirname(path)) return undefined;
  }
}

/**
 * Returns the function that starts PostgreSQL's programs for a data directory. With `setpriv` (every Linux with
 * util-linux) the kernel ends a program started with `endsWithUs` when this process dies for any reason. When
 * directories of root are in the path, the account gets the one capability that lets it pass through them, and nothing
 * else.
 */
export async function launcher(
  dir: string,
  account: Account | undefined,
): Promise<(command: readonly string[], endsWithUs: boolean) => Launch> {
  const blocked = account === undefined ? undefined : await obstacle(dir, account);
  const present = await access(setpriv).then(
    () => process.platform === 'linux',
    () => false,
  );
  if (blocked !== undefined && !present) {
    throw new DatabaseError(
      'unreachable_directory',
      `PostgreSQL runs as user ${account?.name}, who may not enter ${blocked}: choose another data directory, e.g. /var/lib/ringfence`,
    );
  }
  const drop = account === undefined ? [] : [`--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups'];
  const pass = blocked === undefined ? [] : ['--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search'];
  return (command, endsWithUs) => {
    const [program = '', ...args] = command;
    if (!present)
      return { program, args, options: account === undefined ? {} : { uid: account.uid, gid: account.gid } };
    const end = endsWithUs ? ['--pdeathsig', 'INT'] : [];
    const all = [...drop, ...pass, ...end];
    return all.length === 0
      ? { program, args, options: {} }
      : { program: setpriv, args: [...all, '--', ...command], options: {} };
  };
}
