/**
 * Makes a release in out/release by one command: packages, npm package, apt repository, images with a compose.yaml, bill of materials,
 * notices, the section of the changelog, provenance, checksums and their signatures. Usage: npm run release [-- --minisign-key FILE] [--gpg-key ID] [--valid-days N] [--no-images]
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { defaultValidDays, installerWithKey, writeAptRepository } from './packaging/apt-repository.mjs';
import { buildProgramDebs, buildRuntimeDeb } from './packaging/build-debs.mjs';
import { changelogSection } from './packaging/changelog.mjs';
import { builtComponents } from './packaging/components.mjs';
import { buildImages } from './packaging/images.mjs';
import { provenance, sourceCommit } from './packaging/provenance.mjs';
import { sbom } from './packaging/sbom.mjs';
import { packageVersion, sourceDate } from './packaging/version.mjs';

const top = fileURLToPath(new URL('..', import.meta.url));
const out = `${top}out/release`;
const { values } = parseArgs({
  options: {
    'minisign-key': { type: 'string' },
    'gpg-key': { type: 'string' },
    'valid-days': { type: 'string' },
    'no-images': { type: 'boolean' },
  },
});
const version = packageVersion();
const epoch = sourceDate();
/** @param {string} path */
const read = (path) => readFileSync(join(top, path), 'utf8');

/** @param {string} program @param {readonly string[]} args */
function run(program, args) {
  const { status, error } = spawnSync(program, args, { cwd: top, stdio: 'inherit' });
  if (status !== 0)
    throw new Error(`${program} ${args.join(' ')} failed${error === undefined ? '' : `: ${error.message}`}`);
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const notices = read('dist/NOTICES.txt');
const debs = [
  ...buildProgramDebs({ program: top, version, notices, epoch, outdir: out }),
  buildRuntimeDeb('amd64', out),
  buildRuntimeDeb('arm64', out),
];
run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', out]);
const validDays = Number(values['valid-days'] ?? defaultValidDays);
writeAptRepository({ debs, outdir: join(out, 'apt'), epoch, gpgKey: values['gpg-key'], validDays });
const keyDigest = values['gpg-key'] === undefined ? undefined : installerWithKey({ top, apt: join(out, 'apt') });
if (keyDigest === undefined) copyFileSync(join(top, 'packaging/install.sh'), join(out, 'apt/install.sh'));
writeFileSync(join(out, 'NOTICES.txt'), notices);
writeFileSync(
  join(out, 'sbom.cdx.json'),
  `${JSON.stringify(sbom({ version, epoch, components: builtComponents() }), undefined, 2)}\n`,
);
writeFileSync(join(out, 'RELEASE.md'), changelogSection(read('CHANGELOG.md'), version));
if (values['no-images'] !== true) {
  buildImages({ debs, version, epoch, outdir: out });
  copyFileSync(join(top, 'packaging/compose.yaml'), join(out, 'compose.yaml'));
}

/** Of everything that is there now, in one order on every machine. */
const filesNow = () =>
  readdirSync(out, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(out.length + 1))
    .toSorted();
const statement = provenance({ top, version, folder: out, files: filesNow(), source: sourceCommit(top) });
writeFileSync(join(out, 'provenance.intoto.json'), `${JSON.stringify(statement, undefined, 2)}\n`);
const files = filesNow();
const sums = files.map(
  (file) =>
    `${createHash('sha256')
      .update(readFileSync(join(out, file)))
      .digest('hex')}  ${file}\n`,
);
writeFileSync(join(out, 'SHA256SUMS'), sums.join(''));
if (values['minisign-key'] !== undefined) {
  const comment = `ringfence ${version}`;
  const signed = ['SHA256SUMS', 'provenance.intoto.json'].map((name) => join(out, name));
  run('minisign', ['-S', '-s', values['minisign-key'], '-c', comment, '-t', comment, '-m', ...signed]);
}
if (keyDigest !== undefined) process.stdout.write(`SHA-256 of the signing key, apt/ringfence.asc: ${keyDigest}\n`);
process.stdout.write(
  `ringfence ${version} in out/release: ${files.length} files${values['minisign-key'] === undefined ? ', not signed' : ''}\n`,
);
