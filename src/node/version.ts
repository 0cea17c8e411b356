/** Owns the program's version: that of the package, and the commit of a build that is no release. */

/** An `import` of it touches all that it exports, which loads as much again. */
const { readFileSync } = process.getBuiltinModule('node:fs');

/** The same path leads there from `src/node` and from the bundle in `dist`: the nearest package.json above. */
function find(): string {
  for (const up of ['..', '../..']) {
    try {
      const text = readFileSync(new URL(`${up}/package.json`, import.meta.url), 'utf8');
      const { version } = JSON.parse(text) as { readonly version?: string };
      if (version !== undefined) return version;
    } catch {
      // Not here; one further up.
    }
  }
  return '0.0.0';
}

/** What the build puts here: the commit; empty for a release, absent where nothing was built. */
const commit = process.env['RINGFENCE_BUILD_COMMIT'] ?? '';

/** `0.1.0` of a release, `0.1.0+1a2b3c4d5e` of what was built after it. */
export const programVersion = commit === '' ? find() : `${find()}+${commit}`;
