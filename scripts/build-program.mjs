/** Builds the one program (server, agent, client commands) as self-contained files for Node. */
import { build } from 'esbuild';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { oneChunk } from './one-chunk.mjs';
import { modulesIn } from './packaging/components.mjs';
import { buildCommit } from './packaging/version.mjs';

const top = fileURLToPath(new URL('..', import.meta.url));

/**
 * @param {{ outdir: string }} options
 * @returns {Promise<readonly string[]>} every module that went into it, as paths
 */
export async function buildProgram({ outdir }) {
  /** @satisfies {import('esbuild').BuildOptions} */
  const common = {
    absWorkingDir: top,
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    target: 'node20',
    define: { "process.env['RINGFENCE_BUILD_COMMIT']": JSON.stringify(buildCommit()) },
    format: 'esm',
    sourcemap: true,
    metafile: true,
    // Half of what Node would read at each start is comments and indentation.
    minifyWhitespace: true,
    legalComments: 'none',
    // An unforeseen failure shows its line.
    lineLimit: 120,
    // Some dependencies are CommonJS and call require for Node's own modules, which an ES module lacks.
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
    logLevel: 'warning',
  };
  const parts = partsOfTheDoor();
  // The agent has a beginning of its own: it runs on every device for months, and an eighth of its memory would be for the rest.
  const agent = build({ ...common, banner: {}, entryPoints: { agent: 'src/agent/start.ts' } });
  // The door is one file: commands, options, help. Of a dozen small files Node would resolve, open and link each.
  const door = await build({
    ...common,
    entryPoints: { ringfence: 'src/cli/main.ts' },
    plugins: [parts.plugin],
  });
  // What a command does is loaded when it runs. Rooms share no file, so that none is split for the sake of another.
  const rest = await Promise.all([
    agent,
    ...roomsOf(parts.found).map((entryPoints) =>
      build({
        ...common,
        entryPoints,
        splitting: true,
        plugins: isClient(entryPoints) ? [oneChunk(Object.values(entryPoints))] : [],
        external: [
          // Only `--demo-idp` wants it, and says what to do where it is missing.
          'oidc-provider',
          // Fastify would load them for schemas of routes, of which there are none (`http/app.ts`): a fifth of what the server would read.
          '@fastify/ajv-compiler',
          '@fastify/fast-json-stringify-compiler',
        ],
      }),
    ),
  ]);
  return [door, ...rest].flatMap(({ metafile }) => modulesIn(metafile));
}

/**
 * The files of each room, in one order whatever the order in which they were found: it decides how they are cut and named, and two builds must be equal.
 * @param {ReadonlyMap<string, string>} found
 */
export function roomsOf(found) {
  const entries = [...found].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const rooms = new Set(entries.map(([, path]) => roomOf(path)));
  return [...rooms].map((room) => Object.fromEntries(entries.filter(([, path]) => roomOf(path) === room)));
}

/** @param {Readonly<Record<string, string>>} entries of one room */
const isClient = (entries) => Object.values(entries).some((path) => roomOf(path) === 'src/cli');

/** @param {string} path */
const roomOf = (path) => /^src\/(?:cli\/agent\b|\w+)/.exec(path)?.[0];

/** What the door imports only when it is asked for: files of their own beside it, named after their place in `src`. */
function partsOfTheDoor() {
  /** @type {Map<string, string>} */
  const found = new Map();
  return {
    found,
    /** @type {import('esbuild').Plugin} */
    plugin: {
      name: 'parts',
      setup(building) {
        building.onResolve({ filter: /^\.{1,2}\// }, ({ kind, path, resolveDir }) => {
          if (kind !== 'dynamic-import') return undefined;
          const source = relative(top, resolve(resolveDir, path));
          const name = source
            .replace(/^src\//, '')
            .replace(/\.ts$/, '')
            .replaceAll('/', '-');
          found.set(name, source);
          return { path: `./${name}.mjs`, external: true };
        });
      },
    },
  };
}
