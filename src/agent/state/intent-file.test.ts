/**
 * Proves that an intent overwrites the one before, and that another writer in the directory cannot redirect the write.
 */
import { chmod, link, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeIntentFile } from './intent-file.ts';

describe('an intent', () => {
  let folder: string;
  let path: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ringfence-intent-file-'));
    path = join(folder, 'intent.json');
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test('is written where there is none, and then over it, a shorter one and a longer one, in the same file', async () => {
    writeIntentFile(path, 'the first one');
    const { ino, mode } = await stat(path);
    expect(mode & 0o777).toBe(0o600);
    for (const text of ['short', 'a longer one than the first: ä']) {
      writeIntentFile(path, text);
      expect(await readFile(path, 'utf8')).toBe(text);
    }
    expect((await stat(path)).ino).toBe(ino);
    expect(await readdir(folder)).toEqual(['intent.json']);
  });

  test.each([
    ['a link', (victim: string) => symlink(victim, path)],
    ['a second name of a file', (victim: string) => link(victim, path)],
  ])('takes the place of %s, and what that leads to stays as it is', async (_, make) => {
    const victim = join(folder, 'victim');
    await writeFile(victim, 'precious', { mode: 0o600 });
    await make(victim);
    writeIntentFile(path, 'text');
    expect(await readFile(victim, 'utf8')).toBe('precious');
    expect(await readFile(path, 'utf8')).toBe('text');
    expect((await readdir(folder)).toSorted()).toEqual(['intent.json', 'victim']);
  });

  test('that others could read is replaced by one that they cannot', async () => {
    await writeFile(path, 'old');
    await chmod(path, 0o644);
    writeIntentFile(path, 'text');
    expect(await readFile(path, 'utf8')).toBe('text');
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });
});
