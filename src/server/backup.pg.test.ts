/**
 * Proves that a backup holds the whole database at one moment, that a restore succeeds completely or changes nothing,
 * and that no reader resumes from a lost history.
 */
import { asServer } from './store/contract/actor.ts';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startPostgres } from '../../test/lib/postgres.ts';
import { backup, restore } from './backup.ts';
import { openDatabase } from './database/supervise.ts';
import { serverConfig } from './options/config.ts';
import { openStore } from './store/open.ts';
import { device, group } from './store/store.fixture.ts';
import type { Store } from './store/contract/store.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rf-backup-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const at = (values: { data?: string; databaseUrl?: string }) => serverConfig(values, { env: {}, isRoot: true });

async function fill(store: Store) {
  const owner = { user_id: (await store.users.create({ username: 'olga' }, asServer)).id, ...asServer };
  const { id: org } = await store.organizations.create(owner.user_id, { name: 'acme', description: '' }, asServer);
  await store.devices.create(org, owner, device(owner.user_id));
  await store.groups.create(org, owner, 'organization', group());
  return { org, owner };
}

const contents = async (store: Store, { org, owner }: Awaited<ReturnType<typeof fill>>) => ({
  devices: (await store.devices.list(org)).map(({ json }) => json),
  groups: (await store.groups.list(org, { reader: owner.user_id })).map(({ json }) => json),
});

test('a running server is backed up; a stopped one gets exactly that back', async () => {
  const data = join(folder, 'data');
  const file = join(folder, 'backup');
  let database = await openDatabase({ dir: data });
  let store = await openStore({ url: database.url, phase: 3 });
  const world = await fill(store);
  const before = await contents(store, world);
  const head = (await store.organizations.get(world.org)).revision;
  expect(await backup(at({ data }), file)).toBe((await stat(file)).size);
  expect((await stat(file)).mode & 0o777).toBe(0o600);

  for (let index = 0; index < 5; index += 1)
    await store.devices.create(world.org, world.owner, device(world.owner.user_id));
  const after = await contents(store, world);
  await expect(restore(at({ data }), file, { replace: true })).rejects.toThrow(/pid \d+\) is using .*: stop it first$/);
  await store.close();
  await database.stop();

  await expect(restore(at({ data }), file, { replace: false })).rejects.toThrow(
    /not empty: to replace its content with the backup, use --replace/,
  );
  await writeFile(join(folder, 'broken'), (await readFile(file)).subarray(0, -200));
  await expect(restore(at({ data }), join(folder, 'broken'), { replace: true })).rejects.toThrow(/pg_restore failed/);
  await expect(restore(at({ data }), join(folder, 'absent'), { replace: true })).rejects.toThrow(
    /cannot read .*absent/,
  );

  database = await openDatabase({ dir: data });
  store = await openStore({ url: database.url, phase: 3 });
  expect(await contents(store, world)).toEqual(after);
  await store.close();
  await database.stop();

  await restore(at({ data }), file, { replace: true });
  database = await openDatabase({ dir: data });
  store = await openStore({ url: database.url, phase: 3 });
  try {
    expect(await contents(store, world)).toEqual(before);
    // The restore discards every change after the backup. No reader can resume from one of these revisions.
    const now = (await store.log.heads([world.org])).organizations.get(world.org)?.revision ?? 0;
    expect(now).toBeGreaterThan(head + 1_000_000);
    expect((await store.log.resumption(world.org)).gaps).toEqual([{ kind: undefined, first: head + 1, last: now - 1 }]);
    const next = await store.devices.create(world.org, world.owner, device(world.owner.user_id));
    expect(next.revision).toBe(now + 1);
    expect(await store.log.readChanges(world.org, now, 10)).toHaveLength(1);
  } finally {
    await store.close();
    await database.stop();
  }
});

test('a backup moves to another directory, without webhooks where that is asked, and one that fails leaves nothing behind', async () => {
  const [from, to, file] = [join(folder, 'from'), join(folder, 'to'), join(folder, 'backup')];
  const database = await openDatabase({ dir: from });
  const store = await openStore({ url: database.url, phase: 3 });
  const world = await fill(store);
  const before = await contents(store, world);
  const hook = { name: '', url: 'https://hooks.test', events: [], offline_after: 900, secret: 'rf_hook_secret' };
  await store.webhooks.create(world.org, world.owner, hook);
  await store.close();
  await database.stop();
  await backup(at({ data: from }), file, { webhooks: false });
  await restore(at({ data: to }), file, { replace: false });
  const moved = await openDatabase({ dir: to });
  const there = await openStore({ url: moved.url, phase: 3 });
  try {
    expect(await contents(there, world)).toEqual(before);
    // They were left out, with their secrets.
    expect(await there.webhooks.list(world.org)).toEqual([]);
  } finally {
    await there.close();
    await moved.stop();
  }
  const nowhere = `postgres://nobody@/nothing?host=${encodeURIComponent(folder)}`;
  await expect(backup(at({ databaseUrl: nowhere }), join(folder, 'failed'))).rejects.toThrow(/pg_dump failed/);
  await expect(backup(at({ data: join(folder, 'form') }), join(folder, 'failed'))).rejects.toThrow(
    /there is no database in .*form$/,
  );
  expect((await readdir(folder)).toSorted()).toEqual(['backup', 'from', 'to']);
});

test('a database by URL is backed up and restored too, but not while servers use it', async () => {
  const postgres = await startPostgres();
  try {
    const [one, two] = [await postgres.freshUrl(), await postgres.emptyUrl()];
    const file = join(folder, 'backup');
    const store = await openStore({ url: one, phase: 3 });
    const world = await fill(store);
    const before = await contents(store, world);
    await backup(at({ databaseUrl: one }), file);
    await expect(restore(at({ databaseUrl: one }), file, { replace: true })).rejects.toThrow(
      'servers are using the database',
    );
    await store.close();
    await restore(at({ databaseUrl: two }), file, { replace: false });
    const copy = await openStore({ url: two, phase: 3 });
    expect(await contents(copy, world)).toEqual(before);
    await copy.close();
  } finally {
    await postgres.stop();
  }
});
