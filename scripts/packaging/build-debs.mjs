/** Owns the building of all Debian packages from a built checkout. */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { debName, writeDeb } from './deb.mjs';
import { agentPackage, programPackage, runtimePackage, serverPackage } from './debian.mjs';
import { cached, runtime, runtimeArchives, runtimeVersion } from './runtime.mjs';

/** @import { Architecture } from './runtime.mjs' */

/** Every file of the runtime package carries this date: its bytes hang on the release alone, not on who packs it when. */
const runtimeEpoch = Date.parse('2026-01-01T00:00:00Z') / 1000;

/**
 * Packing a runtime takes a minute, so it is done once for each that is pinned.
 * @param {Architecture} architecture
 * @param {string} outdir
 */
export function buildRuntimeDeb(architecture, outdir) {
  mkdirSync(outdir, { recursive: true });
  const recipe = createHash('sha256').update(
    JSON.stringify([runtimePackage.toString(), runtimeArchives[architecture]]),
  );
  const key = `ringfence-node_${runtimeVersion}_${architecture}_${recipe.digest('hex').slice(0, 16)}.deb`;
  const kept = cached(key, (file) =>
    writeDeb(runtimePackage(architecture, runtime(architecture)), { file, epoch: runtimeEpoch }),
  );
  const file = join(outdir, `ringfence-node_${runtimeVersion}-1_${architecture}.deb`);
  copyFileSync(kept, file);
  return file;
}

/**
 * The packages that hold no compiled code: they are the same on every architecture.
 * @param {{ program: string, version: string, notices: string, epoch: number, outdir: string, units?: string }} options
 */
export function buildProgramDebs({ program, version, notices, epoch, outdir, units }) {
  mkdirSync(outdir, { recursive: true });
  const debs = [
    programPackage({ program, version, notices }),
    agentPackage(version, units),
    serverPackage(version, units),
  ];
  return debs.map((deb) => {
    const file = join(outdir, debName(deb));
    writeDeb(deb, { file, epoch });
    return file;
  });
}
