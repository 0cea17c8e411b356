/** Proves what accompanies a release without building one: its provenance, and the compose file that runs its images. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { runtimePath } from '../../scripts/packaging/debian.mjs';
import { provenance } from '../../scripts/packaging/provenance.mjs';
import { runtimeArchives } from '../../scripts/packaging/runtime.mjs';
import { packageVersion } from '../../scripts/packaging/version.mjs';
import { serverOptions } from '../../src/server/options/server-options.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));

describe('the provenance of a release', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-provenance-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'a.deb'), 'a');
  const commit = '1'.repeat(40);
  const made = (isClean: boolean): ReturnType<typeof provenance> =>
    provenance({ top, version: '1.2.3', folder, files: ['a.deb'], source: { commit, isClean } });

  it('is an in-toto statement of SLSA that names each file by its digest, and the commit and runtimes it was made of', () => {
    const { _type: type, subject, predicateType, predicate } = made(true);
    expect([type, predicateType]).toEqual(['https://in-toto.io/Statement/v1', 'https://slsa.dev/provenance/v1']);
    expect(subject).toEqual([{ name: 'a.deb', digest: { sha256: createHash('sha256').update('a').digest('hex') } }]);
    const { resolvedDependencies: parts, internalParameters } = predicate.buildDefinition;
    expect(parts).toContainEqual({ name: 'source', digest: { gitCommit: commit } });
    expect(JSON.stringify(parts)).toContain(runtimeArchives.arm64.name);
    expect(internalParameters).toEqual({ uncommitted: false });
  });

  it('is the same for the same source, and says where a checkout held more than its commit', () => {
    expect(made(true)).toEqual(made(true));
    expect(made(false).predicate.buildDefinition.internalParameters).toEqual({ uncommitted: true });
    const nowhere = provenance({ top, version: '1.2.3', folder, files: [], source: undefined });
    expect(nowhere.predicate.buildDefinition.internalParameters).toEqual({ uncommitted: true });
    expect(JSON.stringify(nowhere)).not.toContain('gitCommit');
  });
});

describe('the compose file', () => {
  const text = readFileSync(join(top, 'packaging/compose.yaml'), 'utf8');
  const { services, volumes } = parse(text) as {
    readonly services: Readonly<Record<string, Service>>;
    readonly volumes: Readonly<Record<string, unknown>>;
  };
  interface Service {
    readonly image: string;
    readonly environment: Readonly<Record<string, string>>;
    readonly healthcheck: { readonly test: readonly string[] };
    readonly volumes: readonly string[];
    readonly cap_drop: readonly string[];
    readonly read_only: boolean;
    readonly ports?: readonly string[];
  }
  const both = Object.entries(services);

  it('runs a server and its database from the image of this version, each with a health check and one volume', () => {
    expect(Object.keys(services)).toEqual(['database', 'server']);
    for (const [name, { image, healthcheck, volumes: mounted }] of both) {
      expect(image).toBe(`localhost/ringfence-server:\${RINGFENCE_VERSION:-${packageVersion()}}`);
      expect(healthcheck.test.every((word) => typeof word === 'string')).toBe(true);
      expect(mounted).toEqual([`${name}:/var/lib/ringfence`]);
      expect(volumes).toHaveProperty(name);
    }
    expect(services['server']?.healthcheck.test.join(' ')).toContain(`CMD-SHELL /${runtimePath} `);
  });

  it('gives nobody rights, a default password or a port beyond this machine', () => {
    for (const [, { cap_drop: dropped, read_only: isReadOnly }] of both)
      expect([dropped, isReadOnly]).toEqual([['ALL'], true]);
    expect(services['database']?.ports).toBeUndefined();
    expect(services['server']?.ports).toEqual(['${RINGFENCE_PORT:-127.0.0.1:8080}:8080']);
    const uses = text.match(/\$\{RINGFENCE_DATABASE_PASSWORD[^}]*\}/g) ?? [];
    expect(uses).toHaveLength(2);
    expect(uses.filter((use) => !use.includes(':?'))).toEqual([]);
  });

  it('sets only variables which the server has', () => {
    const known = new Set<string>(Object.values(serverOptions).map(({ env }) => env));
    const set = Object.keys(services['server']?.environment ?? {});
    expect(set.length).toBeGreaterThan(0);
    expect(set.filter((variable) => !known.has(variable))).toEqual([]);
  });
});
