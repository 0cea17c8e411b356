/** Owns the question as whom PostgreSQL runs: it refuses root, so root hands it to an unprivileged account. */
import { readFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { DatabaseError } from './errors.ts';

export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

const preferred = ['ringfence', 'postgres', 'nobody'];

async function accounts(): Promise<Account[]> {
  const text = await readFile('/etc/passwd', 'utf8').catch(() => '');
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    return name !== undefined && uid !== undefined && gid !== undefined ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
}

/** Undefined when this process is not root: PostgreSQL then simply runs as the same user. Data that exist already stay with their owner. */
export async function chooseAccount(clusterDirectory: string): Promise<Account | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  const known = await accounts();
  const owner = await stat(clusterDirectory).catch(() => undefined);
  if (owner !== undefined && owner.uid !== 0) {
    const name = known.find(({ uid }) => uid === owner.uid)?.name ?? String(owner.uid);
    return { name, uid: owner.uid, gid: owner.gid };
  }
  for (const name of preferred) {
    const found = known.find((account) => account.name === name && account.uid !== 0);
    if (found !== undefined) return found;
  }
  throw new DatabaseError('failed', 'PostgreSQL cannot run as root and there is no user postgres or nobody: start as another user');
}

/** Fails unless the account can walk down to the directory; PostgreSQL's own message about this is hard to read. */
export async function checkReachable(dir: string, account: Account): Promise<void> {
  for (let path = resolve(dir); ; path = dirname(path)) {
    const { mode, uid, gid } = await stat(path);
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & bit) === 0) {
      throw new DatabaseError(
        'unreachable_directory',
        `PostgreSQL runs as user ${account.name}, who may not enter ${path}: choose another data directory, e.g. /var/lib/ringfence`,
      );
    }
    if (path === dirname(path)) return;
  }
}
