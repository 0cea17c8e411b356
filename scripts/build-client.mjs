/** Builds what `import … from 'ringfence/client'` gives: one ES module for Node and browsers, and its types. */
import { build } from 'esbuild';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { modulesIn } from './packaging/components.mjs';

const top = fileURLToPath(new URL('..', import.meta.url));

/**
 * @param {{ outdir: string }} options
 * @returns {Promise<readonly string[]>} every module that went into it, as paths
 */
export async function buildClient({ outdir }) {
  const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
  const project = ['-p', join(top, 'tsconfig.client.json'), '--rootDir', join(top, 'src')];
  const output = ['--outDir', join(outdir, 'types'), '--noEmit', 'false', '--declaration', '--emitDeclarationOnly'];
  // `npm run types` checks this project. Threads would check parts of it twice, and write unions in an order that differs from run to run.
  const quick = ['--noCheck', '--singleThreaded'];
  const compiler = [join(typescript, 'bin/tsc'), ...project, ...output, ...quick];
  const types = promisify(execFile)(process.execPath, compiler, { cwd: top });
  const code = build({
    absWorkingDir: top,
    entryPoints: { client: 'src/client/public.ts' },
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'neutral',
    target: 'es2022',
    format: 'esm',
    sourcemap: true,
    // Shorter, and still readable.
    minifySyntax: true,
    metafile: true,
    logLevel: 'warning',
  });
  const [, { metafile }] = await Promise.all([types, code]);
  return modulesIn(metafile);
}
