/**
 * Builds the Debian packages for both architectures, whichever this machine has, into out/debian.
 * Usage: npm run package [-- --architecture amd64|arm64]
 */
import { readFileSync, rmSync, statSync } from 'node:fs';
import { basename, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildProgramDebs, buildRuntimeDeb } from './packaging/build-debs.mjs';
import { packageVersion, sourceDate } from './packaging/version.mjs';

/** @import { Architecture } from './packaging/runtime.mjs' */

const program = fileURLToPath(new URL('..', import.meta.url));
const outdir = `${program}out/debian`;

/** @param {readonly string[]} args @returns {readonly Architecture[]} */
function architecturesOf([option, value, ...more]) {
  if (option === undefined) return ['amd64', 'arm64'];
  if (option === '--architecture' && more.length === 0 && (value === 'amd64' || value === 'arm64')) return [value];
  throw new Error('usage: npm run package [-- --architecture amd64|arm64]');
}

const architectures = architecturesOf(process.argv.slice(2));
rmSync(outdir, { recursive: true, force: true });
const common = { program, version: packageVersion(), epoch: sourceDate(), outdir };
const files = [
  ...buildProgramDebs({ ...common, notices: readFileSync(`${program}dist/NOTICES.txt`, 'utf8') }),
  ...architectures.map((architecture) => buildRuntimeDeb(architecture, outdir)),
];
for (const file of files) {
  process.stdout.write(
    `${(statSync(file).size / 1e6).toFixed(2).padStart(6)} MB  ${relative(program, outdir)}/${basename(file)}\n`,
  );
}
const own = process.arch === 'arm64' ? 'arm64' : 'amd64';
const architecture = architectures.includes(own) ? own : architectures.join();
/** @param {'agent' | 'server'} name */
const installs = (name) =>
  `  cd out/debian && sudo apt install ./ringfence-${name}_*.deb ./ringfence_*.deb ./ringfence-node_*_${architecture}.deb\n`;
process.stdout.write(`\nOn a device:\n${installs('agent')}On a server:\n${installs('server')}Then: docs/install.md\n`);
