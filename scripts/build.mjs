/** Bundles the one program (server, agent, client commands) into dist/ringfence.mjs, and the client library beside it. */
import { build } from 'esbuild';
import { existsSync } from 'node:fs';
import { buildClient } from './build-client.mjs';

if (existsSync('src/cli/main.ts')) {
  await build({
    entryPoints: { ringfence: 'src/cli/main.ts' },
    outdir: 'dist',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    sourcemap: true,
    logLevel: 'warning',
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  });
}

await buildClient({ outdir: 'dist' });
