/**
 * Proves that a backup holds the whole database at one moment, that a restore succeeds completely or changes nothing,
 * and that no reader resumes from a lost history.
 */
import { asServer } from './store/data/actor.ts';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { asSuperuser, startPostgres } from '../../test/lib/postgres.ts';
import { backup, restore } from './backup.ts';
import { findPrograms } from './database/programs.ts';
import { openDatabase } from './database/supervise.ts';
import { serverConfig } from './options/config.ts';
import { openStore, type Store } from './store/open.ts';
import { device, group } from './store/store.fixture.ts';

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
  expect(await backup(at({ data }), file)).toEqual({ bytes: (await stat(file)).size, isSealed: true });
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
  await expect(restore(at({ data }), join(folder, 'broken'), { replace: true, unverified: true })).rejects.toThrow(
    /pg_restore failed/,
  );
  await expect(restore(at({ data }), join(folder, 'absent'), { replace: true })).rejects.toThrow(
    /cannot read .*absent/,
  );

  database = await openDatabase({ dir: data });
  store = await openStore({ url: database.url, phase: 3 });
  expect(await contents(store, world)).toEqual(after);
  await store.close();
  await database.stop();

  expect(await restore(at({ data }), file, { replace: true })).toBe('unaltered');
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

const programs = await findPrograms({});

describe('a backup that somebody altered', () => {
  const tool = (name: string, ...args: string[]): string =>
    execFileSync(join(programs.bin, name), args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], cwd: '/' });
  /** A backup with an owner, an organization, a device and a group, and where it came from. */
  const taken = async () => {
    const [data, file] = [join(folder, 'data'), join(folder, 'backup')];
    const database = await openDatabase({ dir: data });
    const store = await openStore({ url: database.url, phase: 3 });
    const world = await fill(store);
    const before = await contents(store, world);
    await store.close();
    await database.stop();
    await backup(at({ data }), file);
    return { data, file, world, before };
  };
  /** The text of all definitions in the data directory's database. */
  const definitions = async (data: string): Promise<string> => {
    const database = await openDatabase({ dir: data });
    try {
      return tool('pg_dump', database.url, '--schema-only').replaceAll(/^\\(un)?restrict .*$/gm, '');
    } finally {
      await database.stop();
    }
  };
  /** Puts text of the same length in the place of other text, as `sed` would: the file stays well-formed. */
  const exchange = async (file: string, from: string, to: string): Promise<string> => {
    const bytes = await readFile(file);
    const place = bytes.indexOf(from);
    expect(place, from).toBeGreaterThan(0);
    expect(to.length).toBeLessThanOrEqual(from.length);
    bytes.write(to.padEnd(from.length), place, 'latin1');
    const other = `${file}-altered`;
    await writeFile(other, bytes);
    return other;
  };

  test('runs no command: what Ringfence does not make is refused by name, and left out where that is asked', async () => {
    const { data, file, before, world } = await taken();
    const made = await definitions(data);
    const mark = join(folder, 'ran');
    // PostgreSQL's account could write it.
    await chmod(folder, 0o777);
    // With tools of PostgreSQL alone, as whoever holds the file can do it.
    const postgres = await startPostgres();
    const altered = join(folder, 'altered');
    try {
      const url = asSuperuser(await postgres.emptyUrl());
      tool('pg_restore', `--dbname=${url}`, '--no-owner', file);
      const program = `CREATE FUNCTION run_it() RETURNS text LANGUAGE plpgsql AS $$ BEGIN COPY (SELECT '') TO PROGRAM 'id >${mark}'; RETURN 'x'; END $$`;
      tool('psql', '-qAtc', program, '-c', 'CREATE MATERIALIZED VIEW seen AS SELECT run_it()', url);
      tool('pg_dump', url, '--format=custom', '--no-owner', `--file=${altered}`);
    } finally {
      await postgres.stop();
    }
    await rm(mark, { force: true });
    const elsewhere = join(folder, 'elsewhere');
    for (const there of [data, elsewhere])
      await expect(restore(at({ data: there }), altered, { replace: true })).rejects.toThrow(
        there === data ? /has no seal/ : /does not make: FUNCTION public run_it\(\), MATERIALIZED VIEW public seen/,
      );
    expect(await restore(at({ data }), altered, { replace: true, unverified: true })).toBe('no_seal');
    expect(existsSync(mark)).toBe(false);
    // All that was made by our own program is there, and nothing else.
    expect(await definitions(data)).toBe(made);
    const database = await openDatabase({ dir: data });
    const store = await openStore({ url: database.url, phase: 3 });
    try {
      expect(await contents(store, world)).toEqual(before);
    } finally {
      await store.close();
      await database.stop();
    }
    expect(existsSync(mark)).toBe(false);
  });

  test('takes no definition along, and no statement in the place of rows', async () => {
    const { data, file } = await taken();
    const made = await definitions(data);
    const body = 'BEGIN INSERT INTO audit_outbox (audit_id) VALUES (NEW.id); RETURN NULL; END';
    const hidden = await exchange(file, body, "BEGIN COPY (SELECT '') TO PROGRAM 'id'; RETURN NULL; END");
    await restore(at({ data }), hidden, { replace: true, unverified: true });
    expect(await definitions(data)).toBe(made);
    const statement = await exchange(file, 'COPY public.era_starts (', 'DELETE FROM users; --(');
    await expect(restore(at({ data }), statement, { replace: true, unverified: true })).rejects.toThrow(
      /a statement where rows should be: "DELETE FROM users/,
    );
    const foreign = await exchange(file, 'COPY public.era_starts (', 'COPY public.pg_class (');
    await expect(restore(at({ data: join(folder, 'elsewhere') }), foreign, { replace: true })).rejects.toThrow(
      /rows of a table that Ringfence does not have: pg_class/,
    );
    expect(await definitions(data)).toBe(made);
  });

  test('is refused by the key of the server that wrote it, and by that of another; without a key that is said', async () => {
    const { data, file } = await taken();
    const bytes = await readFile(file);
    bytes[bytes.length - 200] = (bytes.at(-200) ?? 0) ^ 1;
    const altered = join(folder, 'altered');
    await writeFile(altered, bytes);
    await expect(restore(at({ data }), altered, { replace: true })).rejects.toThrow(
      /does not fit the key .*backup-key/,
    );
    await writeFile(altered, (await readFile(file)).subarray(0, -(17 + 1 + 64)));
    await expect(restore(at({ data }), altered, { replace: true })).rejects.toThrow(/has no seal/);
    expect((await stat(join(data, 'backup-key'))).mode & 0o777).toBe(0o600);

    const elsewhere = join(folder, 'elsewhere');
    expect(await restore(at({ data: elsewhere }), file, { replace: false })).toBe('no_key');
    // With the key of the first server beside it, the other one can tell.
    await cp(join(data, 'backup-key'), join(elsewhere, 'backup-key'));
    expect(await restore(at({ data: elsewhere }), file, { replace: true })).toBe('unaltered');
    await rm(join(elsewhere, 'backup-key'));
    await backup(at({ data: elsewhere }), join(folder, 'another'));
    await expect(restore(at({ data: elsewhere }), file, { replace: true })).rejects.toThrow(/does not fit the key/);
  });
});
