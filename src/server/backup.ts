/**
 * Owns `ringfence backup` and `ringfence restore`. A backup is one file with the whole database of a running server. A
 * restore needs a stopped server.
 */
import { resolve } from 'node:path';
import { clusterVersion, runningUrl } from './database/cluster.ts';
import { dumpDatabase, readDump } from './database/dump.ts';
import { DatabaseError } from './database/errors.ts';
import { findPrograms, type Programs } from './database/programs.ts';
import { checkSeal, keyFile, seal } from './database/seal.ts';
import { openDatabase } from './database/supervise.ts';
import { serverConfig } from './options/config.ts';
import type { ServerValues } from './options/server-options.ts';
import { StoreError } from './problems.ts';
import { inspect, leapAfterRestore } from './store/schema/after-restore.ts';
import { putBack, UnfitBackup } from './store/schema/put-back.ts';

interface DatabaseAccess {
  readonly url: string;
  readonly programs: Programs;
  release(): Promise<void>;
}

type BackupConfig = ReturnType<typeof serverConfig>;

/** The database at a URL, or the one in the data directory: a running server's, or started for the purpose. */
async function reach(where: BackupConfig, shared: boolean): Promise<DatabaseAccess> {
  const release = (): Promise<void> => Promise.resolve();
  const bin = where.postgresBin;
  if (where.databaseUrl !== undefined)
    return { url: where.databaseUrl, programs: await findPrograms({ bin }), release };
  try {
    const database = await openDatabase({ dir: where.data, bin });
    return { url: database.url, programs: database.programs, release: () => database.stop() };
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== 'in_use') throw error;
    const running = shared ? await runningUrl(where.data) : undefined;
    if (running === undefined) throw new DatabaseError('in_use', `${error.message}: stop it first`);
    return { url: running.url, programs: await findPrograms({ bin, major: running.major }), release };
  }
}

async function withDatabase<T>(
  where: BackupConfig,
  shared: boolean,
  work: (reached: DatabaseAccess) => Promise<T>,
): Promise<T> {
  const reached = await reach(where, shared);
  try {
    return await work(reached);
  } finally {
    await reached.release();
  }
}

/** The tables with the secrets of webhooks, and those that are useless without them. */
const webhookTables = ['webhooks', 'webhook_conditions', 'webhook_deliveries'] as const;

/** Writes the backup; the server may go on running. Gives its size in bytes, and whether it is sealed. */
export async function backup(
  where: BackupConfig,
  file: string,
  { webhooks = true, signal }: { readonly webhooks?: boolean; readonly signal?: AbortSignal } = {},
): Promise<{ readonly bytes: number; readonly isSealed: boolean }> {
  // A mistyped directory must not become an empty database, and a backup of it a file that somebody relies on.
  if (where.databaseUrl === undefined && (await clusterVersion(where.data)) === undefined)
    throw new DatabaseError('failed', `there is no database in ${where.data}`);
  return withDatabase(where, true, async ({ url, programs }) => {
    let isSealed = false;
    const finish = async (written: string): Promise<void> => {
      isSealed = await seal(written, where.data);
    };
    const without = webhooks ? [] : webhookTables;
    const bytes = await dumpDatabase({ url, programs, signal, file: resolve(file), without, finish });
    return { bytes, isSealed };
  });
}

const contentsOf = (webhooks: boolean): string =>
  webhooks
    ? 'It contains names, rules, the keys that sign evidence and the signing secrets of webhooks: keep it private.'
    : 'It contains names, rules and the keys that sign evidence: keep it private. It does not contain webhooks: create them again after a restore.';

type Sealed = Awaited<ReturnType<typeof checkSeal>>;

/** Why a backup is refused that the key of this server does not vouch for. */
const unsealed = (file: string, data: string, found: 'no_seal' | 'altered'): string => {
  const why = {
    no_seal: `${file} has no seal: another program or an earlier version wrote it, or somebody altered it`,
    altered: `${file} does not fit the key ${keyFile(data)}: another server wrote it, or somebody altered it`,
  }[found];
  return `${why}. If you trust where it comes from, restore with --unverified`;
};

/**
 * Puts a backup into an empty database, or with `replace` in the place of what is there. No server may be running on it. Gives
 * what the seal says of the file.
 */
export async function restore(
  where: BackupConfig,
  file: string,
  options: { readonly replace: boolean; readonly unverified?: boolean; readonly signal?: AbortSignal },
): Promise<Sealed> {
  const { signal, unverified = false } = options;
  const sealed = await checkSeal(resolve(file), where.data).catch((cause: unknown) => {
    if (cause instanceof DatabaseError) throw cause;
    throw new DatabaseError('failed', `cannot read ${file}: ${(cause as Error).message}`, { cause });
  });
  if ((sealed === 'no_seal' || sealed === 'altered') && !unverified)
    throw new DatabaseError('failed', unsealed(file, where.data, sealed));
  return withDatabase(where, false, async ({ url, programs }) => {
    const { empty, inUse, heads } = await inspect(url);
    if (inUse) throw new DatabaseError('in_use', 'servers are using the database: stop them first');
    if (!empty && !options.replace) {
      throw new DatabaseError(
        'failed',
        'the database is not empty: to replace its content with the backup, use --replace',
      );
    }
    const dump = readDump({ programs, signal, file: resolve(file) });
    await putBack(url, dump, { takeUnknown: unverified, signal });
    await leapAfterRestore(url, heads);
    return sealed;
  });
}

/** Runs either command and gives the exit code. */
export async function runBackup(
  command: {
    readonly name: 'backup' | 'restore';
    readonly file: string;
    readonly replace?: boolean | undefined;
    readonly unverified?: boolean | undefined;
    readonly webhooks?: boolean | undefined;
  },
  values: ServerValues,
): Promise<number> {
  const { file, webhooks = true } = command;
  const stop = new AbortController();
  const { signal } = stop;
  const end = (): void => stop.abort();
  process.on('SIGTERM', end).on('SIGINT', end);
  try {
    const where = serverConfig(values, { env: process.env, isRoot: process.geteuid?.() === 0 });
    if (command.name === 'backup') {
      const { bytes, isSealed } = await backup(where, file, { webhooks, signal });
      const key = keyFile(where.data);
      const sealed = isSealed
        ? `It is sealed with the key ${key}: keep a copy of the key, but not next to your backups.`
        : `It has no seal, because the key ${key} cannot be read or made.`;
      process.stdout.write(
        `${webhooks ? 'Everything' : 'Everything but webhooks'} is in ${file} (${bytes} bytes). ${contentsOf(webhooks)} Tokens and keys are in it as digests only. ${sealed}\n`,
      );
    } else {
      const { replace = false, unverified = false } = command;
      const sealed = await restore(where, file, { replace, unverified, signal });
      const checked =
        sealed === 'unaltered'
          ? 'its seal is intact'
          : sealed === 'no_key'
            ? `its seal was not checked, because there is no key ${keyFile(where.data)}`
            : 'nothing vouches for what is in it';
      process.stdout.write(
        `${file} is restored; ${checked}. When the server runs again, agents and other clients that saw later changes read everything again.\n`,
      );
    }
    return 0;
  } catch (error) {
    const known =
      error instanceof DatabaseError ||
      error instanceof UnfitBackup ||
      error instanceof StoreError ||
      (error instanceof Error && 'syscall' in error);
    if (!known) throw error;
    const reason = error instanceof StoreError ? 'cannot reach the database' : error.message;
    process.stderr.write(`ringfence: ${reason}\n`);
    return 1;
  } finally {
    process.off('SIGTERM', end).off('SIGINT', end);
  }
}
