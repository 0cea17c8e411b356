/**
 * Proves that a file is replaced completely or not at all, and that another writer in the directory cannot redirect the
 * write.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openFreshFile, removeUnfinished, writeFileAtomically, writeFileAtomicallySync } from './atomic-write.ts';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-whole-'));
  path = join(folder, 'file');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const options = { mode: 0o640, durable: true };

test('a file is replaced, with the mode that was asked for, and nothing is left beside it', async () => {
  await writeFileAtomically(path, 'old', options);
  await writeFileAtomically(path, 'new', options);
  expect(await readFile(path, 'utf8')).toBe('new');
  expect((await stat(path)).mode & 0o777).toBe(0o640);
  expect(await readdir(folder)).toEqual(['file']);
});

test('a link under the name that earlier versions wrote through leads nowhere', async () => {
  const victim = join(folder, 'victim');
  await writeFile(victim, 'precious');
  await symlink(victim, `${path}.new`);
  await writeFileAtomically(path, 'text', options);
  expect(await readFile(victim, 'utf8')).toBe('precious');
  expect(await readFile(path, 'utf8')).toBe('text');
});

test('a link under its own name is replaced, not followed', async () => {
  const victim = join(folder, 'victim');
  await writeFile(victim, 'precious');
  await symlink(victim, path);
  await writeFileAtomically(path, 'text', options);
  expect(await readFile(victim, 'utf8')).toBe('precious');
  expect(await readFile(path, 'utf8')).toBe('text');
});

test('a file that is written in one step is replaced, with its mode, and a link under its name is not followed', async () => {
  const victim = join(folder, 'victim');
  await writeFile(victim, 'precious');
  await symlink(victim, path);
  writeFileAtomicallySync(path, 'old', 0o600);
  writeFileAtomicallySync(path, 'new', 0o640);
  expect(await readFile(victim, 'utf8')).toBe('precious');
  expect(await readFile(path, 'utf8')).toBe('new');
  expect((await stat(path)).mode & 0o777).toBe(0o640);
  expect((await readdir(folder)).toSorted()).toEqual(['file', 'victim']);
});

test('a write in one step that fails leaves nothing beside what it would have replaced', async () => {
  await mkdir(path);
  expect(() => writeFileAtomicallySync(path, 'text', 0o600)).toThrow('EISDIR');
  expect(await readdir(folder)).toEqual(['file']);
});

test('two writers at once leave one text whole, and nothing beside it', async () => {
  const texts = Array.from({ length: 20 }, (_, i) => String(i).repeat(50_000));
  await Promise.all(texts.map((text) => writeFileAtomically(path, text, { mode: 0o600, durable: false })));
  expect(texts).toContain(await readFile(path, 'utf8'));
  expect(await readdir(folder)).toEqual(['file']);
});

test('a write that is cut off leaves the old text, and what it left is removed later, nothing else', async () => {
  await writeFileAtomically(path, 'old', options);
  const end = new Promise<void>(() => {});
  void writeFileAtomically(path, 'new', { ...options, failpoint: () => end });
  while ((await readdir(folder)).length < 2) await new Promise((resolve) => setImmediate(resolve));
  for (const name of ['file.new', 'other.new', 'other.0123456789abcdef.new', 'file.new.txt']) {
    await writeFile(join(folder, name), '');
  }
  await removeUnfinished([path]);
  expect(await readFile(path, 'utf8')).toBe('old');
  expect((await readdir(folder)).toSorted()).toEqual([
    'file',
    'file.new.txt',
    'other.0123456789abcdef.new',
    'other.new',
  ]);
});

test('a failure leaves the old text and nothing beside it', async () => {
  await writeFileAtomically(path, 'old', options);
  const failing = { ...options, failpoint: () => Promise.reject(new Error('crash')) };
  await expect(writeFileAtomically(path, 'new', failing)).rejects.toThrow('crash');
  expect(await readFile(path, 'utf8')).toBe('old');
  expect(await readdir(folder)).toEqual(['file']);
});

test('a fresh file takes the place of a link, and what the link led to stays as it was', async () => {
  const victim = join(folder, 'victim');
  await writeFile(victim, 'precious');
  await symlink(victim, path);
  const file = await openFreshFile(path, 0o600);
  await file.writeFile('text');
  await file.close();
  expect(await readFile(victim, 'utf8')).toBe('precious');
  expect(await readFile(path, 'utf8')).toBe('text');
});
