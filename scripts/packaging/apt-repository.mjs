/** Owns the apt repository: a folder that any web server can serve, with the packages and the lists that apt reads. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

const architectures = ['amd64', 'arm64'];

/** @param {Buffer | string} bytes */
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

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
  // What Debian's own archive does: names that would be awkward in a path are escaped by whoever serves them, not here.
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
 */
export function writeAptRepository({ debs, outdir, epoch, gpgKey }) {
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
    `Date: ${new Date(epoch * 1000).toUTCString().replace('GMT', '+0000')}`,
    `Architectures: ${architectures.join(' ')}`,
    'Components: main',
    'Description: Ringfence, security groups for fleets of Linux devices',
    'SHA256:',
    ...sums,
  ];
  writeFileSync(join(dist, 'Release'), `${release.join('\n')}\n`);
  if (gpgKey === undefined) return;
  const sign = ['--batch', '--yes', '--local-user', gpgKey];
  run('gpg', [...sign, '--clearsign', '--output', join(dist, 'InRelease'), join(dist, 'Release')]);
  run('gpg', [...sign, '--armor', '--detach-sign', '--output', join(dist, 'Release.gpg'), join(dist, 'Release')]);
  writeFileSync(join(outdir, 'ringfence.asc'), run('gpg', ['--armor', '--export', gpgKey]));
}
