/** Owns the bill of materials of a release, as CycloneDX: what the bundles hold, and the runtime that the packages bring. */
import { createHash } from 'node:crypto';
import { runtimeArchives, runtimeVersion } from './runtime.mjs';

/** @import { Component } from './components.mjs' */

/** @param {string} name @param {string} version */
const purl = (name, version) => `pkg:npm/${name.replace('@', '%40')}@${version}`;

/**
 * A licence by its SPDX identifier, or as an expression where it is more than one.
 * @param {string} licence
 */
const licences = (licence) => [/[ ()]/.test(licence) ? { expression: licence } : { license: { id: licence } }];

/**
 * The same release gives the same text: it names its source's date, and its number is made of its content.
 * @param {{ version: string, epoch: number, components: readonly Component[] }} options
 */
export function sbom({ version, epoch, components }) {
  const parts = components.map(({ name, version: release, licence, parts: held }) => ({
    type: 'library',
    'bom-ref': purl(name, release),
    name,
    version: release,
    purl: purl(name, release),
    licenses: licences(licence),
    properties: held.map((part) => ({ name: 'ringfence:part', value: part })),
  }));
  const runtimes = Object.values(runtimeArchives).map(({ name, sha512 }) => ({
    type: 'platform',
    'bom-ref': purl(name, runtimeVersion),
    name,
    version: runtimeVersion,
    purl: purl(name, runtimeVersion),
    licenses: licences('MIT'),
    hashes: [{ alg: 'SHA-512', content: Buffer.from(sha512, 'base64').toString('hex') }],
  }));
  const all = [...parts, ...runtimes];
  const hash = createHash('sha256')
    .update(JSON.stringify([version, epoch, all]))
    .digest('hex');
  const serial = hash.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-5$3-8$4-$5');
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${serial}`,
    version: 1,
    metadata: {
      timestamp: new Date(epoch * 1000).toISOString(),
      component: {
        type: 'application',
        'bom-ref': purl('ringfence', version),
        name: 'ringfence',
        version,
        purl: purl('ringfence', version),
        licenses: licences('Apache-2.0'),
      },
    },
    components: all,
    dependencies: [{ ref: purl('ringfence', version), dependsOn: all.map((each) => each['bom-ref']) }],
  };
}
