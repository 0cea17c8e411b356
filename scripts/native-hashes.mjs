/** Owns the exchange of our portable SHA-256 for the runtime's own, in everything that is built for Node. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('../src', import.meta.url));

/** @type {import('esbuild').Plugin} */
export const nativeHashes = {
  name: 'native hashes',
  setup(building) {
    building.onLoad({ filter: /\/src\/policy\/digest\/sha256\.ts$/ }, () => ({
      contents: "export { sha256Hex } from './sha256.ts';",
      resolveDir: join(source, 'node'),
    }));
  },
};
