/**
 * Owns how what client commands do is cut into files. By itself esbuild makes a file of what each set of commands has in common: thirty for one answer, and
 * Node resolves, opens and links each. Here every command reaches all that everyday commands reach, so that it is one file, beside which a command has only
 * what is its own.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const top = fileURLToPath(new URL('..', import.meta.url));

/** Large, and few ask for it: files of their own. */
const seldom =
  /\/(?:doctor|watch|reference|oauth)\/|\/policy\/(?:explain|nft)\.ts$|\/(?:read-yaml|write-yaml|provider-sign-in)\.ts$/;

/**
 * For a build with `splitting`.
 * @param {readonly string[]} paths of its entries, below the top
 * @returns {import('esbuild').Plugin}
 */
export function oneChunk(paths) {
  const everyday = paths.filter((path) => !seldom.test(path)).map((path) => `import ${JSON.stringify(`./${path}`)};`);
  return {
    name: 'one chunk',
    setup(building) {
      building.onResolve({ filter: /^\.{1,2}\// }, ({ kind, path, resolveDir }) =>
        kind === 'entry-point' || kind === 'dynamic-import'
          ? { path: resolve(resolveDir, path), namespace: 'part' }
          : undefined,
      );
      building.onLoad({ filter: /./, namespace: 'part' }, ({ path }) => ({
        contents: `${everyday.join('')}export * from ${JSON.stringify(path)};`,
        resolveDir: top,
      }));
    },
  };
}
