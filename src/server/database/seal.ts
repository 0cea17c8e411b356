/**
 * Owns the seal of a backup: a MAC at its end, by a key that stays with the server. Who can alter the file, but has no access
 * to the server, cannot seal it again.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { appendFile, chown, link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseError } from './errors.ts';

/** Behind the dump: `pg_restore` does not read that far. */
const start = '\nringfence-seal-1 ';
const size = start.length + 64 + 1;

export const keyFile = (data: string): string => join(data, 'backup-key');

const isAbsent = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';

/** Undefined when there is none. */
async function readKey(data: string): Promise<Buffer | undefined> {
  const text = await readFile(keyFile(data), 'latin1').catch((error: unknown) => {
    if (isAbsent(error)) return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  if (!/^[0-9a-f]{64}\n$/.test(text)) throw new DatabaseError('failed', `${keyFile(data)} is not a key for backups`);
  return Buffer.from(text.trim(), 'hex');
}

/** Makes it at the first backup; whole or not at all, and of two backups at once both use one. */
async function keyOf(data: string): Promise<Buffer> {
  const found = await readKey(data);
  if (found !== undefined) return found;
  const draft = `${keyFile(data)}.${process.pid}`;
  await rm(draft, { force: true });
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.writeFile(`${randomBytes(32).toString('hex')}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  try {
    // Root may be the first to back up, and the server's own user the next.
    const { uid, gid } = await stat(data);
    if (process.geteuid?.() === 0) await chown(draft, uid, gid);
    await link(draft, keyFile(data)).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
  return keyOf(data);
}

async function macOf(file: string, key: Buffer, bytes: number): Promise<string> {
  const mac = createHmac('sha256', key);
  if (bytes > 0) for await (const piece of createReadStream(file, { end: bytes - 1 })) mac.update(piece as Buffer);
  return mac.digest('hex');
}

/** Seals a file that is not in its place yet. False if there is no place for a key, as with a database elsewhere. */
export async function seal(file: string, data: string): Promise<boolean> {
  let key: Buffer;
  try {
    await mkdir(data, { recursive: true, mode: 0o700 });
    key = await keyOf(data);
  } catch (error) {
    if (['EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
  const mac = await macOf(file, key, (await stat(file)).size);
  await appendFile(file, `${start}${mac}\n`);
  return true;
}

/** Whether the server of this directory wrote the file, and nobody has altered it since. */
export async function checkSeal(file: string, data: string): Promise<'unaltered' | 'no_key' | 'no_seal' | 'altered'> {
  const key = await readKey(data);
  if (key === undefined) return 'no_key';
  const whole = (await stat(file)).size;
  const tail = Buffer.alloc(size);
  const handle = await open(file, 'r');
  try {
    await handle.read(tail, 0, size, Math.max(0, whole - size));
  } finally {
    await handle.close();
  }
  if (!tail.toString('latin1').startsWith(start)) return 'no_seal';
  const is = Buffer.from(tail.toString('latin1', start.length, size - 1));
  const should = Buffer.from(await macOf(file, key, whole - size));
  return is.length === should.length && timingSafeEqual(is, should) ? 'unaltered' : 'altered';
}
