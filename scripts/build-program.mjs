/** Builds the one program (server, agent, client commands) as a self-contained bundle for Node. */
import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';

const top = fileURLToPath(new URL('..', import.meta.url));

/** @param {{ outdir: string }} options */
export async function buildProgram({ outdir }) {
  /** @satisfies {import('esbuild').BuildOptions} */
  const common = {
    absWorkingDir: top,
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    sourcemap: true,
    logLevel: 'warning',
  };
  const program = build({
    ...common,
    entryPoints: { ringfence: 'src/cli/main.ts' },
    // Commands are loaded when they are called: `--help` does not pay for the server.
    splitting: true,
    // Only `--demo-idp` wants it, and says what to do where it is missing.
    external: ['oidc-provider'],
    // Some dependencies are CommonJS and call require for Node's own modules, which an ES module lacks.
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  });
  // The agent has a beginning of its own, in one file: it runs on every device for months, and an eighth of its memory
  // would be for the rest of the program.
  const agent = build({ ...common, entryPoints: { agent: 'src/agent/start.ts' } });
  await Promise.all([program, agent]);
}
