/**
 * Owns which YAML library what only writes is built with: the ES modules that the package has for browsers, of which what reads is left out. For Node it has CommonJS,
 * of which nothing can be. Both are made of one source; they differ in how a reader warns.
 */
import { fileURLToPath } from 'node:url';

const modules = fileURLToPath(new URL('../node_modules/yaml/browser/dist/index.js', import.meta.url));

/** @type {import('esbuild').Plugin} */
export const yamlToWrite = {
  name: 'YAML to write',
  setup(building) {
    building.onResolve({ filter: /^yaml$/ }, ({ importer }) =>
      importer.endsWith('/write-yaml.ts') ? { path: modules, sideEffects: false } : undefined,
    );
  },
};
