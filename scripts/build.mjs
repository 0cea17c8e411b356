/**
 * Builds everything into dist/: the program that `bin/ringfence` runs, the client library, and the web UI. With the word
 * `server`, without the client library: starting the program needs neither it nor the compiler of its types.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { renameSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const dist = fileURLToPath(new URL('../dist', import.meta.url));
const outdir = `${dist}.${process.pid}`;
const args = process.argv.slice(2);
// The tools write from threads and processes of their own. In a group of its own, all of that ends before the folder is removed,
// and Ctrl-C in a terminal does not make each of them report an error.
const build = spawn(process.execPath, [fileURLToPath(new URL('./build-into.mjs', import.meta.url)), outdir, ...args], {
  stdio: 'inherit',
  detached: true,
});
let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    interrupted = true;
    if (build.pid !== undefined && build.exitCode === null) process.kill(-build.pid, 'SIGKILL');
  });
if (args[0] === 'server') process.stderr.write('setup: building the program and the web UI\n');
const [code] = await once(build, 'exit');
// Only a whole build takes the place of the last one; chunks are named by their content and would pile up otherwise.
if (code === 0 && !interrupted) {
  rmSync(dist, { recursive: true, force: true });
  renameSync(outdir, dist);
} else rmSync(outdir, { recursive: true, force: true, maxRetries: 5 });
if (interrupted) process.stderr.write('setup: interrupted\n');
process.exitCode = interrupted ? 130 : (code ?? 1);
