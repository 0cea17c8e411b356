/** Proves which directories root does not trust with its files; as root, like all that needs this suffix. */
import { chmod, chown, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { refuseSharedFolder, SharedFolder } from './private-folder.ts';

let above: string;
let folder: string;
beforeEach(async () => {
  above = await mkdtemp(join(tmpdir(), 'ringfence-private-'));
  folder = join(above, 'state');
  await mkdir(folder, { mode: 0o700 });
});
afterEach(() => rm(above, { recursive: true, force: true }));

test('root’s own directory is trusted, also by a link, and under /tmp, where nobody moves what is not theirs', async () => {
  await symlink(folder, join(above, 'link'));
  await expect(refuseSharedFolder(folder, 0)).resolves.toBeUndefined();
  await expect(refuseSharedFolder(join(above, 'link'), 0)).resolves.toBeUndefined();
});

test('a directory in which others may write is not, nor one that stands in such a place', async () => {
  await chmod(folder, 0o770);
  await expect(refuseSharedFolder(folder, 0)).rejects.toThrow(`other users may write to ${folder}`);
  await chmod(folder, 0o1777);
  await expect(refuseSharedFolder(folder, 0)).rejects.toThrow(SharedFolder);
  await chmod(folder, 0o700);
  await chmod(above, 0o777);
  await expect(refuseSharedFolder(folder, 0)).rejects.toThrow(`other users may write to ${above}`);
});

test('a directory of another user is not, nor one that stands in it', async () => {
  await chown(folder, 65_534, 65_534);
  await expect(refuseSharedFolder(folder, 0)).rejects.toThrow(`${folder} belongs to user 65534`);
  await chown(folder, 0, 0);
  await chown(above, 65_534, 65_534);
  await expect(refuseSharedFolder(folder, 0)).rejects.toThrow(`${above} belongs to user 65534`);
});

test('a plain user keeps its files where it likes', async () => {
  await chmod(folder, 0o777);
  await expect(refuseSharedFolder(folder, 1_000)).resolves.toBeUndefined();
});
