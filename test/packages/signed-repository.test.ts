/** Proves what a machine believes of a repository: lists that are signed and not too old, by a key whose digest somebody named. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { installerWithKey, signAptRepository, writeAptRepository } from '../../scripts/packaging/apt-repository.mjs';

const top = fileURLToPath(new URL('../..', import.meta.url));
const day = 86_400;
let work: string;
let apt: string;
let gpgKey: string;
let homeBefore: string | undefined;

beforeAll(() => {
  work = mkdtempSync(join(tmpdir(), 'rf-signed-'));
  // apt reads as a user of its own.
  chmodSync(work, 0o755);
  apt = join(work, 'apt');
  const home = join(work, 'gnupg');
  mkdirSync(home, { mode: 0o700 });
  homeBefore = process.env['GNUPGHOME'];
  process.env['GNUPGHOME'] = home;
  const gpg = (...args: readonly string[]): string =>
    execFileSync('gpg', ['--batch', '--quiet', '--passphrase', '', ...args], { encoding: 'utf8', stdio: 'pipe' });
  gpg(
    '--faked-system-time',
    '20200101T000000',
    '--quick-gen-key',
    'Test <test@ringfence.invalid>',
    'ed25519',
    'sign',
    'never',
  );
  gpgKey = /^fpr:+([0-9A-F]+):/m.exec(gpg('--list-secret-keys', '--with-colons'))?.[1] ?? '';
  writeAptRepository({ debs: [], outdir: apt, epoch: 1_600_000_000, gpgKey });
});
afterAll(() => {
  spawnSync('gpgconf', ['--kill', 'all']);
  if (homeBefore === undefined) delete process.env['GNUPGHOME'];
  else process.env['GNUPGHOME'] = homeBefore;
  rmSync(work, { recursive: true, force: true });
});

/** What `apt-get update` says, with folders of its own and this repository alone. */
function update(): { readonly code: number | null; readonly output: string } {
  const root = mkdtempSync(join(work, 'machine-'));
  for (const name of ['lists/partial', 'cache/archives/partial', 'etc'])
    mkdirSync(join(root, name), { recursive: true });
  writeFileSync(
    join(root, 'etc/ringfence.sources'),
    `Types: deb\nURIs: file:${apt}\nSuites: stable\nComponents: main\nSigned-By: ${join(apt, 'ringfence.asc')}\n`,
  );
  const options = [
    `Dir::Etc::sourcelist=${join(root, 'etc/ringfence.sources')}`,
    'Dir::Etc::sourceparts=/dev/null',
    `Dir::State::lists=${join(root, 'lists')}`,
    `Dir::Cache=${join(root, 'cache')}`,
    'APT::Sandbox::User=root',
    // As apt is by itself: images for containers often switch these off.
    'Acquire::Check-Valid-Until=true',
    'Acquire::Check-Date=true',
  ].flatMap((option) => ['-o', option]);
  const { status, stdout, stderr } = spawnSync('apt-get', ['-q', 'update', '--error-on=any', ...options], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
  });
  return { code: status, output: stdout + stderr };
}

test('apt refuses lists whose signature is older than they are valid, and takes them again once they are signed again', () => {
  const now = Math.floor(Date.now() / 1000);
  expect(update()).toMatchObject({ code: 0 });
  signAptRepository({ outdir: apt, gpgKey, signedAt: now - 61 * day });
  const late = update();
  expect(late.code).not.toBe(0);
  expect(late.output).toContain('is expired');
  signAptRepository({ outdir: apt, gpgKey, signedAt: now - 61 * day, validDays: 90 });
  expect(update()).toMatchObject({ code: 0 });
  signAptRepository({ outdir: apt, gpgKey });
  const release = readFileSync(join(apt, 'dists/stable/InRelease'), 'utf8');
  expect(release.match(/^Valid-Until: /gm)).toHaveLength(1);
  const dateOf = (name: string): number =>
    Date.parse(new RegExp(`^${name}: (.*)$`, 'm').exec(release)?.[1] ?? '') / 1000;
  expect(dateOf('Valid-Until') - dateOf('Date')).toBe(60 * day);
});

test('a repository that is not signed has the same bytes whenever it is made', () => {
  const made = [0, 1].map((n) => {
    const outdir = join(work, `unsigned-${n}`);
    writeAptRepository({ debs: [], outdir, epoch: 1_600_000_000 });
    return readFileSync(join(outdir, 'dists/stable/Release'), 'utf8');
  });
  expect(made[0]).toBe(made[1]);
  expect(made[0]).not.toContain('Valid-Until');
});

/** Runs the script as root would, on a machine where `install` only notes what it is given and then fails, so that nothing is written. */
function install(script: string, ...args: readonly string[]) {
  const bin = mkdtempSync(join(work, 'bin-'));
  const noted = join(bin, 'noted');
  const stub = (name: string, text: string): void =>
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  stub('id', 'echo 0');
  stub('apt-get', 'exit 9');
  stub('install', `echo "$*" >${noted}; cp "$4" ${noted}.key; exit 7`);
  const { status, stderr } = spawnSync('sh', [script, 'agent', '--repository', `file:${apt}`, ...args], {
    encoding: 'utf8',
    input: 'rf_enroll_x\n',
    env: { ...process.env, PATH: `${bin}:${process.env['PATH'] ?? ''}` },
  });
  return { status, stderr, key: existsSync(`${noted}.key`) ? readFileSync(`${noted}.key`, 'utf8') : undefined };
}

test('the installation script trusts the key of a repository only where its digest was named, and fails before apt sees it otherwise', () => {
  const script = join(top, 'packaging/install.sh');
  const key = readFileSync(join(apt, 'ringfence.asc'), 'utf8');
  const digest = createHash('sha256').update(key).digest('hex');
  expect(install(script)).toMatchObject({ status: 2, key: undefined });
  for (const wrong of ['', digest.slice(1), `${digest}0`, 'x'.repeat(64), digest.toUpperCase()]) {
    expect(install(script, '--key-sha256', wrong)).toMatchObject({ status: 2, key: undefined });
  }
  expect(install(script, '--key-sha256')).toMatchObject({ status: 2, key: undefined });
  const other = install(script, '--key-sha256', '0'.repeat(64));
  expect(other).toMatchObject({ status: 1, key: undefined });
  expect(other.stderr).toContain('is not the one that was named');
  // The stub of `install` ends it there.
  expect(install(script, '--key-sha256', digest)).toMatchObject({ status: 7, key });
});

test('the script of a release knows the key of its release, and refuses another key at the same address', () => {
  const digest = installerWithKey({ top, apt });
  const script = join(work, 'install.sh');
  writeFileSync(script, readFileSync(join(apt, 'install.sh')));
  const key = readFileSync(join(apt, 'ringfence.asc'), 'utf8');
  expect(digest).toBe(createHash('sha256').update(key).digest('hex'));
  expect(install(script)).toMatchObject({ status: 7, key });
  writeFileSync(join(apt, 'ringfence.asc'), `${key}${key}`);
  try {
    expect(install(script)).toMatchObject({ status: 1, key: undefined });
  } finally {
    writeFileSync(join(apt, 'ringfence.asc'), key);
  }
});

test('the role for Ansible asks for the digest of the key and hands it to the download', () => {
  const role = join(top, 'packaging/ansible/roles/ringfence_agent');
  const tasks = readFileSync(join(role, 'tasks/main.yml'), 'utf8');
  expect(readFileSync(join(role, 'defaults/main.yml'), 'utf8')).toContain("ringfence_repository_key_sha256: ''\n");
  const [asked, downloaded] = [
    tasks.indexOf("ringfence_repository_key_sha256 is match('^[0-9a-f]{64}$')"),
    tasks.indexOf("checksum: 'sha256:{{ ringfence_repository_key_sha256 }}'"),
  ];
  expect(asked).toBeGreaterThan(0);
  expect(downloaded).toBeGreaterThan(asked);
});
