/** Owns the packages that a test machine finds in its repository: ours in several versions, and those of Debian that they need. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeAptRepository } from '../../scripts/packaging/apt-repository.mjs';
import { downloads } from './root.ts';

const debsIn = (folder: string): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.deb'))
    .map((name) => join(folder, name));

export class Repository {
  readonly folder = mkdtempSync(join(tmpdir(), 'ringfence-repository-'));
  readonly #debs: string[];

  constructor(root: string) {
    this.#debs = [...debsIn(join(root, downloads))];
  }

  /** Offers these too, from the next `apt-get update` on; signed, where a key is given, as a release is. */
  offer(debs: readonly string[], gpgKey?: string): void {
    this.#debs.push(...debs);
    writeAptRepository({ debs: this.#debs, outdir: this.folder, epoch: Math.floor(Date.now() / 1000), gpgKey });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The same package with another version, quickly: nothing is compressed. */
export function withVersion(deb: string, version: string, outdir: string): string {
  const work = mkdtempSync(join(tmpdir(), 'ringfence-deb-'));
  try {
    execFileSync('dpkg-deb', ['-R', deb, work]);
    const control = join(work, 'DEBIAN/control');
    writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${version}`));
    const file = join(outdir, `again-${version}.deb`);
    execFileSync('dpkg-deb', ['--root-owner-group', '-Znone', '-b', work, file]);
    return file;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
