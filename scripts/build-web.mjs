/** Builds the web UI: hashed files without inline script, each also compressed, so that the server only hands them out. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build, runnerImport } from 'vite';

const top = fileURLToPath(new URL('..', import.meta.url));

/** @param {string} folder */
function compressAll(folder) {
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(js|css|html|svg)$/.test(path)) continue;
    const bytes = readFileSync(join(folder, path));
    writeFileSync(join(folder, `${path}.gz`), gzipSync(bytes, { level: 9 }));
    const quality = { [constants.BROTLI_PARAM_QUALITY]: 9 };
    writeFileSync(join(folder, `${path}.br`), brotliCompressSync(bytes, { params: quality }));
  }
}

/** @param {string} id */
const pathOf = (id) => id.replace(/^\0/, '').replace(/\?.*$/, '');

/**
 * Parts of Mantine that are in the pages without their style sheet.
 * @param {ReadonlySet<string>} modules
 */
function unstyled(modules) {
  const listed = readFileSync(join(top, 'src/web/theme/mantine.css'), 'utf8');
  return [...modules].flatMap((path) => {
    const part = /@mantine\/core\/.*\/(\w+)\.module\.mjs$/.exec(path)?.[1];
    const isStyled = part !== undefined && existsSync(join(top, `node_modules/@mantine/core/styles/${part}.css`));
    return isStyled && !listed.includes(`'@mantine/core/styles/${part}.css'`) ? [part] : [];
  });
}

/**
 * Modules that a file imports, also through others. Dynamic imports do not count.
 * @param {string} from
 * @param {(id: string) => { importedIds: readonly string[] } | null} infoOf
 */
function importsOf(from, infoOf) {
  const found = new Set([from]);
  for (const id of found) for (const imported of infoOf(id)?.importedIds ?? []) found.add(imported);
  return found;
}

/** Mantine's variables, written once here instead of at each start of a page. */
async function variablesOfTheme() {
  // Unless it is set, the runner sets it to development, also for the build after it.
  process.env['NODE_ENV'] ??= 'production';
  const { module } = /** @type {{ module: { variables: string } }} */ (
    await runnerImport(join(top, 'src/web/theme/variables.ts'), { configFile: false, logLevel: 'warn' })
  );
  return module.variables;
}

/**
 * @param {{ outdir: string }} options
 * @returns {Promise<readonly string[]>} every module that went into it, as paths
 */
export async function buildWeb({ outdir }) {
  const outDir = join(outdir, 'ui');
  /** @type {Set<string>} */
  const modules = new Set();
  /** @type {Set<string>} */
  let ofSignIn = new Set();
  /** @type {Set<string>} */
  let ofFrame = new Set();
  /** @type {Set<string>} */
  let ofOverview = new Set();
  const variables = await variablesOfTheme();
  /** Modules that are loaded by a dynamic import: each begins a file of its own. */
  const onDemand = new Set();
  /** @param {string} id */
  const isOurs = (id) => id.startsWith(join(top, 'src'));
  /** @param {string} id */
  const isOnDemand = (id) => onDemand.has(id);
  /** @param {string} id */
  const isPart = (id) => isOurs(id) && !ofFrame.has(id) && !ofSignIn.has(id) && !isOnDemand(id);
  await build({
    configFile: false,
    root: join(top, 'src/web'),
    base: '/ui/',
    mode: 'production',
    logLevel: 'warn',
    plugins: [
      {
        name: 'preload React',
        // The first file asks for it as it runs; so the browser learns of it with the HTML.
        transformIndexHtml: (_, { bundle = {} }) =>
          Object.values(bundle).flatMap((file) => {
            const isReact = file.type === 'chunk' && file.facadeModuleId?.endsWith('/react-dom/client.js') === true;
            const attrs = { rel: 'modulepreload', crossorigin: true, href: `/ui/${file.fileName}` };
            return isReact ? [{ tag: 'link', attrs, injectTo: /** @type {const} */ ('head') }] : [];
          }),
      },
      {
        name: 'variables',
        load: (id) => (id === join(top, 'src/web/theme/variables.css') ? variables : undefined),
      },
      {
        name: 'modules',
        // Styles are taken out of the chunks: those that were loaded went into a file of their own.
        moduleParsed: ({ id }) => void (/\.css(\?|$)/.test(id) && modules.add(pathOf(id))),
        buildEnd() {
          ofSignIn = importsOf(join(top, 'src/web/main.tsx'), (id) => this.getModuleInfo(id));
          ofFrame = importsOf(join(top, 'src/web/signed-in-app.tsx'), (id) => this.getModuleInfo(id));
          ofOverview = importsOf(join(top, 'src/web/pages/overview.tsx'), (id) => this.getModuleInfo(id));
          for (const id of this.getModuleIds()) if (this.getModuleInfo(id)?.dynamicImporters.length) onDemand.add(id);
        },
        generateBundle(_, bundle) {
          for (const file of Object.values(bundle)) {
            if (file.type !== 'chunk') continue;
            for (const [id, { renderedLength }] of Object.entries(file.modules)) {
              if (renderedLength > 0) modules.add(pathOf(id));
            }
          }
        },
      },
    ],
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2022',
      assetsInlineLimit: 0,
      reportCompressedSize: false,
      modulePreload: { polyfill: false },
      chunkSizeWarningLimit: 800,
      rolldownOptions: {
        output: {
          // What is needed together is one file: as many small ones, it costs a phone more time to ask for them than to read them.
          // Each group imports only groups above it, and libraries import nothing of ours: so no two files import each other.
          codeSplitting: {
            includeDependenciesRecursively: false,
            groups: [
              // Each some hundred bytes, which every page asks for.
              { name: 'hooks', test: /@mantine\/hooks\/.*\/(random-id|use-id|use-isomorphic-effect|use-merged-ref)\// },
              // Not the rest of Mantine, whose first file names all of its parts.
              { name: 'frame-libraries', test: (id) => id.includes('/@tanstack/') && ofFrame.has(id) },
              { name: 'frame', test: (id) => isOurs(id) && ofFrame.has(id) && !ofSignIn.has(id) && !isOnDemand(id) },
              { name: 'overview-parts', test: (id) => isPart(id) && ofOverview.has(id), minShareCount: 2 },
              { name: 'parts', test: isPart, minShareCount: 3 },
            ],
          },
        },
        onLog(level, log, next) {
          // Libraries mark their files for servers that render; there is none here.
          if (log.code !== 'MODULE_LEVEL_DIRECTIVE') next(level, log);
        },
      },
    },
  });
  const missing = unstyled(modules);
  if (missing.length > 0) throw new Error(`src/web/theme/mantine.css lacks ${missing.join(', ')}`);
  compressAll(outDir);
  return [...modules];
}
