/**
 * Builds everything into dist/: the program that `bin/ringfence` runs, the client library, and the web UI. With the word
 * `server`, without the client library: starting the program needs neither it nor the compiler of its types.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildClient } from './build-client.mjs';
import { buildProgram } from './build-program.mjs';
import { buildWeb } from './build-web.mjs';
import { componentsOf, licenceNotices } from './packaging/components.mjs';

const dist = fileURLToPath(new URL('../dist', import.meta.url));
const whole = process.argv[2] !== 'server';
const outdir = `${dist}.${process.pid}`;
/** Ctrl-C also ends esbuild's own process, and whichever end is noticed first: one line, and nothing of a build that is not whole. */
const interrupted = () => {
  rmSync(outdir, { recursive: true, force: true });
  process.stderr.write('setup: interrupted\n');
  process.exit(130);
};
process.on('SIGINT', interrupted).on('SIGTERM', interrupted);
process.on('uncaughtException', (error) => {
  if (error.message.startsWith('The service was stopped')) interrupted();
  process.stderr.write(`${error.stack ?? error.message}\n`);
  process.exit(1);
});
if (!whole) process.stderr.write('setup: building the program and the web UI\n');
try {
  const [program, client, web] = await Promise.all([
    buildProgram({ outdir }),
    whole ? buildClient({ outdir }) : [],
    buildWeb({ outdir }),
  ]);
  const components = componentsOf({ program, client, web });
  writeFileSync(`${outdir}/NOTICES.txt`, licenceNotices(components));
  writeFileSync(`${outdir}/components.json`, `${JSON.stringify(components, undefined, 2)}\n`);
  // Only a whole build takes the place of the last one; chunks are named by their content and would pile up otherwise.
  rmSync(dist, { recursive: true, force: true });
  renameSync(outdir, dist);
} finally {
  rmSync(outdir, { recursive: true, force: true });
}
