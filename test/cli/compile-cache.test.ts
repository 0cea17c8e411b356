/**
 * Proves where the runtime caches compiled code of a client command: only where no other user can write, or nowhere.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

/**
 * Reports instead of caching, and fakes the ownership of files: temporary files are in folders that every user may
 * write to.
 */
const stub = `
const fs = require('node:fs');
const { lstatSync } = fs;
const { files, effective, old } = JSON.parse(process.env.PRETEND);
fs.lstatSync = (path) => {
  const { uid, mode } = lstatSync(path);
  return { uid, mode, ...files[path] };
};
if (effective !== undefined) process.geteuid = () => effective;
const told = (folder) => process.stdout.write(folder);
require('node:module').enableCompileCache = old ? undefined : told;
`;

interface Pretense {
  readonly files?: Readonly<Record<string, { readonly uid?: number; readonly mode?: number }>>;
  readonly effective?: number;
  readonly old?: true;
}

const user = process.geteuid?.() ?? 0;
let top: string;
let home: string;
let env: Record<string, string>;

beforeEach(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-cache-')));
  for (const folder of ['bin', 'dist', 'home']) mkdirSync(join(top, folder), { mode: 0o755 });
  copyFileSync(fileURLToPath(new URL('../../bin/ringfence', import.meta.url)), join(top, 'bin/ringfence.mjs'));
  writeFileSync(join(top, 'dist/ringfence.mjs'), '');
  writeFileSync(join(top, 'dist/agent.mjs'), 'export const startAgent = () => true;');
  writeFileSync(join(top, 'stub.cjs'), stub);
  home = join(top, 'home');
  env = { HOME: home };
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** What is above, as on a machine of one's own: root's, and closed. */
function safeAbove(): NonNullable<Pretense['files']> {
  const above = top.split('/').map((_, index, names) => names.slice(0, index + 1).join('/') || '/');
  return Object.fromEntries(above.map((path) => [path, { uid: 0, mode: 0o40755 }]));
}

/** The folder that the runtime was given; empty where there is none. */
function cacheFolder({ files = {}, ...rest }: Pretense = {}, command = 'whoami'): string {
  const pretense = JSON.stringify({ files: { ...safeAbove(), ...files }, ...rest });
  const args = ['-r', join(top, 'stub.cjs'), join(top, 'bin/ringfence.mjs'), command];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { env: { ...env, PRETEND: pretense } });
  // Never a failure, and never a word.
  expect({ status, stderr: stderr.toString() }).toEqual({ status: 0, stderr: '' });
  return stdout.toString();
}

describe('what the runtime compiles for a client command is kept', () => {
  test("in the user's cache, in a folder that is closed to others", () => {
    expect(cacheFolder()).toBe(join(home, '.cache/ringfence/compile-cache'));
    expect(statSync(join(home, '.cache/ringfence/compile-cache')).mode & 0o777).toBe(0o700);
    expect(cacheFolder()).toBe(join(home, '.cache/ringfence/compile-cache'));
  });

  test('where XDG_CACHE_HOME says, if that is a whole path', () => {
    mkdirSync(join(top, 'elsewhere'), { mode: 0o700 });
    env['XDG_CACHE_HOME'] = join(top, 'elsewhere');
    expect(cacheFolder()).toBe(join(top, 'elsewhere/ringfence/compile-cache'));
    env['XDG_CACHE_HOME'] = 'elsewhere';
    expect(cacheFolder()).toBe(join(home, '.cache/ringfence/compile-cache'));
  });

  test('by its real path where a link leads to it', () => {
    mkdirSync(join(top, 'disk'), { mode: 0o700 });
    symlinkSync(join(top, 'disk'), join(home, '.cache'));
    expect(cacheFolder()).toBe(join(top, 'disk/ringfence/compile-cache'));
  });
});

describe('nothing is kept, nothing made and nothing said', () => {
  const made = (): boolean => existsSync(join(home, '.cache'));

  test('without a home, and without a runtime that can', () => {
    expect(cacheFolder({ old: true })).toBe('');
    env = {};
    expect(cacheFolder()).toBe('');
    expect(made()).toBe(false);
  });

  test('by a service, which has a folder from its unit', () => {
    expect(cacheFolder({}, 'server') + cacheFolder({}, 'agent')).toBe('');
    expect(made()).toBe(false);
  });

  test('in the home of another user, as under sudo', () => {
    expect(cacheFolder({ files: { [home]: { uid: user + 1 } } })).toBe('');
    expect(made()).toBe(false);
  });

  test('with the rights of another user than the one who called', () => {
    expect(cacheFolder({ effective: user + 1 })).toBe('');
    expect(made()).toBe(false);
  });

  test.each([
    ['everybody', 0o41777],
    ['a group', 0o40775],
  ])('below a folder that %s can write to', (_, mode) => {
    expect(cacheFolder({ files: { [top]: { mode } } })).toBe('');
    expect(cacheFolder({ files: { [home]: { mode } } })).toBe('');
    expect(made()).toBe(false);
  });

  test('in a folder that another user made, or that others may read or write', () => {
    const folder = join(home, '.cache/ringfence/compile-cache');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    expect(cacheFolder()).toBe(folder);
    expect(cacheFolder({ files: { [folder]: { uid: user + 1 } } })).toBe('');
    expect(cacheFolder({ files: { [join(home, '.cache')]: { uid: user + 1 } } })).toBe('');
    expect(cacheFolder({ files: { [join(home, '.cache/ringfence')]: { mode: 0o40777 } } })).toBe('');
    for (const mode of [0o750, 0o702]) {
      chmodSync(folder, mode);
      expect(cacheFolder()).toBe('');
    }
  });

  test('through a link in the place of the folder', () => {
    mkdirSync(join(home, '.cache/ringfence'), { recursive: true, mode: 0o700 });
    mkdirSync(join(top, 'disk'), { mode: 0o700 });
    symlinkSync(join(top, 'disk'), join(home, '.cache/ringfence/compile-cache'));
    expect(cacheFolder()).toBe('');
  });

  test('where the folder cannot be made', () => {
    writeFileSync(join(home, '.cache'), '');
    expect(cacheFolder()).toBe('');
  });
});
