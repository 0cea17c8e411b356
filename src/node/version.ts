/** Owns the program's version, read from the package that it was built from. */

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

export const programVersion = find();
