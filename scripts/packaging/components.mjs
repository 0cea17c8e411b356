/** Owns the list of other people's software in what we ship, with its licences: read from the modules that the bundles really hold. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const top = fileURLToPath(new URL('../..', import.meta.url));

/**
 * @typedef {object} Component
 * @property {string} name
 * @property {string} version
 * @property {string} licence its SPDX expression
 * @property {readonly string[]} parts which of ours hold it: `program`, `client`, `web`
 * @property {string} folder below the top of the checkout it was built in
 */

/**
 * The npm package that a module belongs to: the folder after the last `node_modules`, with its scope.
 * @param {string} path
 */
export function packageFolder(path) {
  const [, folder] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path.replaceAll('\\', '/')) ?? [];
  return folder?.startsWith(top) ? folder.slice(top.length) : folder;
}

/**
 * The modules of which something is left in the output.
 * @param {import('esbuild').Metafile} metafile
 */
export const modulesIn = ({ outputs }) =>
  Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
  );

/**
 * Components in the order of their names; one that two parts hold is listed once.
 * @param {Readonly<Record<string, readonly string[]>>} modules by part
 * @returns {readonly Component[]}
 */
export function componentsOf(modules) {
  /** @type {Map<string, Set<string>>} */
  const parts = new Map();
  for (const [part, paths] of Object.entries(modules)) {
    for (const folder of paths.map(packageFolder)) {
      if (folder !== undefined) parts.set(folder, (parts.get(folder) ?? new Set()).add(part));
    }
  }
  /** @type {Map<string, Component>} */
  const components = new Map();
  for (const [folder, held] of parts) {
    const { name, version, license } = JSON.parse(readFileSync(join(top, folder, 'package.json'), 'utf8'));
    if (typeof license !== 'string') throw new Error(`${name} ${version} names no licence`);
    // npm may have put the same release into two places.
    const key = `${name}@${version}`;
    const all = new Set([...held, ...(components.get(key)?.parts ?? [])]);
    components.set(key, { name, version, licence: license, parts: [...all].toSorted(), folder });
  }
  return [...components].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, component]) => component);
}

/** @returns {readonly Component[]} those of the last build */
export const builtComponents = () => JSON.parse(readFileSync(join(top, 'dist/components.json'), 'utf8'));

/** @param {string} folder */
function licenceText(folder) {
  const file = readdirSync(join(top, folder)).find((name) => /^(licen[cs]e|copying)/i.test(name));
  return file === undefined ? undefined : readFileSync(join(top, folder, file), 'utf8').trim();
}

/** What their licences ask us to pass on: names, licences and texts. */
export function licenceNotices(/** @type {readonly Component[]} */ components) {
  const rule = '-'.repeat(80);
  const intro = `This program holds the following software of others, each under its own licence.`;
  const texts = components.map(({ name, version, licence, folder }) => {
    const text = licenceText(folder) ?? `Licensed under ${licence}; the package carries no text of its own.`;
    return `${rule}\n${name} ${version} (${licence})\n\n${text}\n`;
  });
  return [intro, '', ...texts].join('\n');
}
