/**
 * Runs the benchmarks, all or those named: `npm run bench`, `npm run bench -- compile watch`, `npm run bench -- --list`.
 * Of a long one, parts can be named: `npm run bench -- watch:listing,replicas`. One that fails leaves the others to run; the end is a table of all goals.
 * With `--patience MINUTES` it waits until the machine is quiet, and what the host of a virtual machine has robbed is measured again; for so long.
 */
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { arch, cpus, loadavg, release, type } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

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
 * Bundled first, as the product is, so that what is measured is what ships: what is loaded only when it is wanted is a file of its own, and can be a
 * thread's beginning. The bundle lies inside node_modules, where npm packages are found from.
 * @param {string} file
 */
async function bundled(file) {
  await build({
    entryPoints: [join(here, file)],
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    packages: 'external',
    platform: 'node',
    target: 'node20',
    format: 'esm',
    sourcemap: 'inline',
    logLevel: 'warning',
  });
  return join(folder, `${basename(file, '.ts')}.mjs`);
}

/** How long the runtime takes to start, in the middle of five: the speed of the machine at this moment, in a figure that is known of others. */
function startOfNode() {
  const times = Array.from({ length: 5 }, () => {
    const began = performance.now();
    spawnSync(process.execPath, ['-e', '0'], { env: environment });
    return performance.now() - began;
  });
  return `\`node -e 0\` ${times.toSorted((a, b) => a - b)[2]?.toFixed(0)} ms`;
}

/**
 * Runs one benchmark, or some of its parts. Each time has a file of goals of its own.
 * @param {string} name
 * @param {readonly string[]} parts
 */
async function measure(name, parts) {
  const start = startOfNode();
  console.log(`\n# ${name}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}`);
  const program = programs.get(name) ?? (await bundled(`${name}.bench.ts`));
  programs.set(name, program);
  const began = Date.now();
  const stolen = stolenSince();
  const own = join(goals, name);
  mkdirSync(own, { recursive: true });
  const { status } = spawnSync(process.execPath, ['--expose-gc', '--enable-source-maps', program, ...parts], {
    stdio: 'inherit',
    timeout: patienceMs,
    env: { ...environment, RINGFENCE_BENCH_GOALS: join(own, String(readdirSync(own).length)) },
  });
  const seconds = Math.round((Date.now() - began) / 1_000);
  console.log(`\n(${name}: ${seconds} s, ${(stolen() * 100).toFixed(1)} % of the processors stolen; ${start} before)`);
  return status === 0;
}

/**
 * Measures again what the host has robbed, part by part, whenever the machine is quiet, until a time.
 * @param {number} until
 */
async function measureRobbed(until) {
  for (let robbed = robbedParts(goals); robbed.length > 0; robbed = robbedParts(goals)) {
    const names = robbed.map(([name, part]) => (part === '' ? name : `${name}:${part}`));
    console.log(`\nThe host took too much of the processors from: ${names.join(', ')}. Waiting for quiet.`);
    for (const [name, part] of robbed) {
      if (!(await quietBefore(until))) return;
      if (!(await measure(name, part === '' ? [] : [part]))) failed.add(name);
    }
  }
}

process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const imported = async (/** @type {string} */ file) => import(pathToFileURL(await bundled(file)).href);
/** @type {typeof import('./lib/stolen.ts')} */
const { quietBefore, stolenSince } = await imported('lib/stolen.ts');
/** @type {typeof import('./lib/summary.ts')} */
const { robbedParts, showSummary } = await imported('lib/summary.ts');
const { values: options, positionals } = parseArgs({
  options: { list: { type: 'boolean' }, patience: { type: 'string', default: '0' } },
  allowPositionals: true,
});
const goals = join(folder, 'goals');
/** @type {Map<string, string>} */
const programs = new Map();
/** @type {Set<string>} */
const failed = new Set();
if (options.list === true) {
  for (const file of files) console.log(nameOf(file));
} else {
  const asked = partsOf(positionals);
  const chosen = choose([...asked.keys()]);
  const minutes = Number(options.patience);
  if (!(minutes >= 0)) {
    process.stderr.write('bench: --patience takes a number of minutes\n');
    process.exit(2);
  }
  const [load = 0] = loadavg();
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'} (${arch()}), ${type()} ${release()}`;
  console.log(
    `Node ${process.versions.node}, ${machine}, load ${load.toFixed(1)}${load > 1 ? ': busy, trust ratios only' : ''}`,
  );
  mkdirSync(goals, { recursive: true });
  const until = Date.now() + minutes * 60_000;
  for (const file of chosen) {
    await quietBefore(until);
    if (!(await measure(nameOf(file), asked.get(nameOf(file)) ?? []))) failed.add(nameOf(file));
  }
  if (minutes > 0) await measureRobbed(until);
  showSummary(goals);
  if (failed.size > 0) {
    process.stderr.write(`bench: failed: ${[...failed].join(', ')}\n`);
    process.exitCode = 1;
  }
}
