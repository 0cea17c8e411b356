/** Builds the one program (server, agent, client commands) as a self-contained bundle for Node. */
import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';

const top = fileURLToPath(new URL('..', import.meta.url));

/** @param {{ outdir: string }} options */
export async function buildProgram({ outdir }) {
  await build({
    absWorkingDir: top,
    entryPoints: { ringfence: 'src/cli/main.ts' },
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    // Commands are loaded when they are called: `--help` does not pay for the server.
    splitting: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    sourcemap: true,
    logLevel: 'warning',
    // Only `--demo-idp` wants it, and says what to do where it is missing.
    external: ['oidc-provider'],
    // Some dependencies are CommonJS and call require for Node's own modules, which an ES module lacks.
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  });
}
