/**
 * Runs the benchmarks, all or those named: `npm run bench`, `npm run bench -- compile watch`, `npm run bench -- --list`.
 * Of a long one, parts can be named: `npm run bench -- watch:listing,replicas`. One that fails leaves the others to run; the end is a table of all goals.
 */
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { arch, cpus, loadavg, release, type } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nativeHashes } from '../scripts/native-hashes.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const ending = /\.bench\.ts$/;
const files = readdirSync(here)
  .filter((file) => ending.test(file))
  .toSorted();
const folder = join(here, '..', 'node_modules', '.cache', 'ringfence-bench', String(process.pid));
/** Longer takes none: one that hangs must not end the run. */
const patienceMs = 30 * 60_000;
/** What is measured runs as a service or a package starts it: certificates that a workplace adds to every Node cost each start some 100 ms of processor. */
const { NODE_EXTRA_CA_CERTS: _, ...environment } = process.env;
const nameOf = (/** @type {string} */ file) => file.replace(ending, '');

/**
 * What is asked of each benchmark by name: the parts, when some are named.
 * @param {readonly string[]} args
 */
const partsOf = (args) =>
  new Map(args.map((arg) => /** @type {const} */ ([arg.split(':')[0] ?? '', arg.split(':')[1]?.split(',') ?? []])));

/** @param {readonly string[]} names */
function choose(names) {
  const unknown = names.filter((name) => !files.some((file) => nameOf(file) === name));
  if (unknown.length > 0) {
    process.stderr.write(
      `bench: no such benchmark: ${unknown.join(', ')}; there are: ${files.map(nameOf).join(', ')}\n`,
    );
    process.exit(2);
  }
  return names.length === 0 ? files : files.filter((file) => names.includes(nameOf(file)));
}

/**
 * Bundled first, as the product is, so that what is measured is what ships. The bundle lies inside node_modules, where npm packages are found from.
 * @param {string} file
 */
async function bundled(file) {
  const outfile = join(folder, `${basename(file, '.ts')}.mjs`);
  await build({
    entryPoints: [join(here, file)],
    outfile,
    bundle: true,
    packages: 'external',
    platform: 'node',
    target: 'node20',
    format: 'esm',
    sourcemap: 'inline',
    logLevel: 'warning',
    plugins: [nativeHashes],
  });
  return outfile;
}

const args = process.argv.slice(2);
if (args.includes('--list')) {
  for (const file of files) console.log(nameOf(file));
} else {
  const asked = partsOf(args);
  const chosen = choose([...asked.keys()]);
  const [load = 0] = loadavg();
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'} (${arch()}), ${type()} ${release()}`;
  console.log(
    `Node ${process.versions.node}, ${machine}, load ${load.toFixed(1)}${load > 1 ? ': busy, trust ratios only' : ''}`,
  );
  /** @type {string[]} */
  const failed = [];
  const goals = join(folder, 'goals');
  mkdirSync(goals, { recursive: true });
  for (const file of chosen) {
    console.log(`\n# ${nameOf(file)}`);
    const program = await bundled(file);
    const parts = asked.get(nameOf(file)) ?? [];
    const began = Date.now();
    const { status } = spawnSync(process.execPath, ['--expose-gc', '--enable-source-maps', program, ...parts], {
      stdio: 'inherit',
      timeout: patienceMs,
      env: { ...environment, RINGFENCE_BENCH_GOALS: join(goals, nameOf(file)) },
    });
    if (status !== 0) failed.push(nameOf(file));
    console.log(`\n(${nameOf(file)}: ${Math.round((Date.now() - began) / 1_000)} s)`);
  }
  spawnSync(process.execPath, [await bundled('lib/summary.ts'), goals], { stdio: 'inherit' });
  rmSync(folder, { recursive: true, force: true });
  if (failed.length > 0) {
    process.stderr.write(`bench: failed: ${failed.join(', ')}\n`);
    process.exitCode = 1;
  }
}
