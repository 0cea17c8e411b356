/** Owns the first start: it creates an administrator with a token that the operator can find, also when the first start is interrupted. */
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Store } from '../store/open.ts';
import { digestOf, mint, type Random } from './secret.ts';

export interface FirstAdmin {
  readonly token: string;
  /** The file that holds it. */
  readonly file: string;
}

/** Makes the file with this content unless there is one; gives what it holds. A reader never finds it half written. */
async function keep(file: string, token: string): Promise<string> {
  const draft = `${file}.${process.pid}`;
  const handle = await open(draft, 'w', 0o600);
  try {
    await handle.writeFile(`${token}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  try {
    await link(draft, file);
    return token;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return (await readFile(file, 'utf8')).trim();
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * On a database without users makes `admin`, its organization and its token; else does nothing. The token is on disk before the
 * database knows it, so that a crash in between loses nothing: the next start takes it from there. Servers that start at once on
 * one data directory find one file; on one database, one of them wins.
 */
export async function makeFirstAdmin(options: {
  readonly store: Store;
  readonly data: string;
  readonly chosen?: string | undefined;
  readonly random: Random;
}): Promise<FirstAdmin | undefined> {
  const { store, data, chosen, random } = options;
  if ((await store.users.list({ limit: 1 })).length > 0) return undefined;
  const file = join(data, 'admin-token');
  await mkdir(data, { recursive: true, mode: 0o700 });
  if (chosen !== undefined) await rm(file, { force: true });
  const token = await keep(file, chosen ?? mint('user', random).secret);
  const made = await store.users.bootstrap({ username: 'admin', organization: 'admin', token: digestOf(token) });
  if (made !== undefined) return { token, file };
  // Another server on this database was first, with a token of its own: ours would mislead.
  if ((await store.tokens.authenticate(digestOf(token))) === undefined) await rm(file, { force: true });
  return undefined;
}
