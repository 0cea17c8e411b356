/** Owns the provenance of a release: an in-toto statement that says by which command, from which source and runtime its files were made. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runtimeArchives, runtimeVersion } from './runtime.mjs';

/** @param {string} file */
const sha256 = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');

/**
 * The commit that a checkout holds, and whether it holds something else too. Undefined where there is no history.
 * @param {string} top
 * @returns {{ commit: string, isClean: boolean } | undefined}
 */
export function sourceCommit(top) {
  /** @param {readonly string[]} args */
  const git = (args) => spawnSync('git', args, { cwd: top, encoding: 'utf8' });
  const [head, status] = [git(['rev-parse', 'HEAD']), git(['status', '--porcelain'])];
  if (head.status !== 0 || status.status !== 0) return undefined;
  return { commit: head.stdout.trim(), isClean: status.stdout === '' };
}

/**
 * SLSA provenance v1. It names no time and no machine: whoever builds the same source gets the same statement.
 * @param {object} options
 * @param {string} options.top
 * @param {string} options.version
 * @param {string} options.folder of the files that were made
 * @param {readonly string[]} options.files
 * @param {ReturnType<typeof sourceCommit>} options.source
 */
export function provenance({ top, version, folder, files, source }) {
  const runtimes = Object.values(runtimeArchives).map(({ name, sha512 }) => ({
    uri: `pkg:npm/${name}@${runtimeVersion}`,
    digest: { sha512: Buffer.from(sha512, 'base64').toString('hex') },
  }));
  const commit = source === undefined ? [] : [{ name: 'source', digest: { gitCommit: source.commit } }];
  return {
    subject: files.map((name) => ({ name, digest: { sha256: sha256(join(folder, name)) } })),
    _type: 'https://in-toto.io/Statement/v1',
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:x-ringfence:npm-run-release:1',
        externalParameters: { version },
        // What was not committed is no part of the commit that is named.
        internalParameters: { uncommitted: source?.isClean !== true },
        resolvedDependencies: [
          ...commit,
          { name: 'package-lock.json', digest: { sha256: sha256(join(top, 'package-lock.json')) } },
          ...runtimes,
        ],
      },
      runDetails: { builder: { id: 'urn:x-ringfence:builder:npm-run-release' } },
    },
  };
}
