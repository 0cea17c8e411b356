/** Owns the apt repository: a folder that any web server can serve, with the packages and the lists that apt reads. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

const architectures = ['amd64', 'arm64'];

/** @param {Buffer | string} bytes */
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** @param {number} epoch */
const dateText = (epoch) => new Date(epoch * 1000).toUTCString().replace('GMT', '+0000');

/** @param {string} program @param {readonly string[]} args */
function run(program, args) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr}`);
  return stdout;
}

/** @param {string} control @param {string} name */
const field = (control, name) => new RegExp(`^${name}: (.*)$`, 'm').exec(control)?.[1] ?? '';

/**
 * What apt reads of a package: its control data, where it lies, and what it must be.
 * @param {string} file
 */
function stanza(file) {
  const control = run('dpkg-deb', ['--field', file]).trimEnd();
  const name = field(control, 'Package');
  // As in Debian's own archive: the web server escapes names that would be awkward in a path, not this script.
  const filename = `pool/main/${name.slice(0, 1)}/${name}/${basename(file)}`;
  const bytes = readFileSync(file);
  const text = `${control}\nFilename: ${filename}\nSize: ${bytes.length}\nSHA256: ${sha256(bytes)}\n`;
  return { file, filename, architecture: field(control, 'Architecture'), text };
}

/**
 * @param {object} options
 * @param {readonly string[]} options.debs
 * @param {string} options.outdir
 * @param {number} options.epoch
 * @param {string | undefined} [options.gpgKey] the key that signs it; apt trusts the lists by that, and the packages by the lists
 * @param {number} [options.signedAt] seconds since 1970, now unless given
 * @param {number} [options.validDays]
 */
export function writeAptRepository({ debs, outdir, epoch, gpgKey, signedAt, validDays }) {
  const stanzas = debs.map(stanza).toSorted((a, b) => (a.filename < b.filename ? -1 : 1));
  for (const { file, filename } of stanzas) {
    mkdirSync(join(outdir, dirname(filename)), { recursive: true });
    copyFileSync(file, join(outdir, filename));
  }
  const dist = join(outdir, 'dists/stable');
  /** @type {string[]} */
  const sums = [];
  for (const architecture of architectures) {
    const list = stanzas
      .filter((each) => each.architecture === architecture || each.architecture === 'all')
      .map(({ text }) => text)
      .join('\n');
    const folder = `main/binary-${architecture}`;
    mkdirSync(join(dist, folder), { recursive: true });
    for (const [name, bytes] of /** @type {const} */ ([
      ['Packages', Buffer.from(list)],
      ['Packages.gz', gzipSync(list, { level: 9 })],
    ])) {
      writeFileSync(join(dist, folder, name), bytes);
      sums.push(` ${sha256(bytes)} ${bytes.length} ${folder}/${name}`);
    }
  }
  const release = [
    'Origin: Ringfence',
    'Label: Ringfence',
    'Suite: stable',
    'Codename: stable',
    `Date: ${dateText(epoch)}`,
    `Architectures: ${architectures.join(' ')}`,
    'Components: main',
    'Description: Ringfence, security groups for fleets of Linux devices',
    'SHA256:',
    ...sums,
  ];
  writeFileSync(join(dist, 'Release'), `${release.join('\n')}\n`);
  if (gpgKey === undefined) return;
  signAptRepository({ outdir, gpgKey, signedAt, validDays });
  writeFileSync(join(outdir, 'ringfence.asc'), run('gpg', ['--armor', '--export', gpgKey]));
}

/**
 * The number of days for which apt trusts a signature. Then it requires a newer one, so that a mirror that keeps
 * serving old lists is noticed.
 */
export const defaultValidDays = 60;

/**
 * Signs the lists of a repository, again or for the first time, as of now: machines refuse them after `validDays`.
 * @param {object} options
 * @param {string} options.outdir
 * @param {string} options.gpgKey
 * @param {number | undefined} [options.signedAt] seconds since 1970, now unless given
 * @param {number | undefined} [options.validDays]
 */
export function signAptRepository({
  outdir,
  gpgKey,
  signedAt = Math.floor(Date.now() / 1000),
  validDays = defaultValidDays,
}) {
  if (!Number.isInteger(validDays) || validDays < 1)
    throw new Error('a repository is valid for a whole number of days');
  const dist = join(outdir, 'dists/stable');
  const dates = [`Date: ${dateText(signedAt)}`, `Valid-Until: ${dateText(signedAt + validDays * 86_400)}`];
  const lines = readFileSync(join(dist, 'Release'), 'utf8').split('\n');
  const release = lines
    .filter((line) => !line.startsWith('Valid-Until: '))
    .flatMap((line) => (line.startsWith('Date: ') ? dates : [line]));
  writeFileSync(join(dist, 'Release'), release.join('\n'));
  const sign = ['--batch', '--yes', '--local-user', gpgKey];
  run('gpg', [...sign, '--clearsign', '--output', join(dist, 'InRelease'), join(dist, 'Release')]);
  run('gpg', [...sign, '--armor', '--detach-sign', '--output', join(dist, 'Release.gpg'), join(dist, 'Release')]);
}

/**
 * Puts the installation script beside the signing key, with the digest of that key in it. Returns the digest.
 * @param {{ top: string, apt: string }} folders
 */
export function installerWithKey({ top, apt }) {
  const digest = sha256(readFileSync(join(apt, 'ringfence.asc')));
  const script = readFileSync(join(top, 'packaging/install.sh'), 'utf8');
  if (!/^key_sha256=$/m.test(script)) throw new Error('install.sh has no place for the digest of the key');
  writeFileSync(join(apt, 'install.sh'), script.replace(/^key_sha256=$/m, `key_sha256=${digest}`));
  return digest;
}
