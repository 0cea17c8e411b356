/** Builds the web UI: hashed files without inline script, each also compressed, so that the server only hands them out. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

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
 * @param {{ outdir: string }} options
 * @returns {Promise<readonly string[]>} every module that went into it, as paths
 */
export async function buildWeb({ outdir }) {
  const outDir = join(outdir, 'ui');
  /** @type {Set<string>} */
  const modules = new Set();
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
        name: 'modules',
        // Styles are taken out of the chunks: those that were loaded went into a file of their own.
        moduleParsed: ({ id }) => void (/\.css(\?|$)/.test(id) && modules.add(pathOf(id))),
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
