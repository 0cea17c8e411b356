/**
 * Makes a fresh clone ready: `npm start`, `npm test` and `npm run bench` call it first. It owns the effects;
 * `packages.mjs` lists what is needed, and `plan.mjs` decides what to do. With nothing to do it starts no process.
 */
import { createHash } from 'node:crypto';
import { accessSync, constants, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { aptInstall, parseArguments, plan } from './plan.mjs';

/** @import { SystemPackage } from './packages.mjs' */
/** @import { NpmPackages } from './plan.mjs' */

const root = fileURLToPath(new URL('..', import.meta.url));
const stampFile = join(root, 'node_modules', '.ringfence-setup');

/** @param {string} line */
const say = (line) => process.stderr.write(`setup: ${line}\n`);

/**
 * @param {string} message
 * @returns {never}
 */
function stop(message) {
  say(message);
  process.exit(1);
}

/** @param {string} path */
function exists(path) {
  try {
    accessSync(path, constants.F_OK);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} path */
function readIfThere(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** @param {string} folder */
function entries(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

// A user's PATH often lacks the sbin folders, where nft and ip may live.
const folders = new Set([...(process.env['PATH'] ?? '').split(delimiter), '/usr/local/sbin', '/usr/sbin', '/sbin']);

/** @param {string} need */
function has(need) {
  const star = need.indexOf('*');
  if (star >= 0) {
    const before = need.slice(0, star);
    return entries(before).some((entry) => exists(before + entry + need.slice(star + 1)));
  }
  if (need.startsWith('/')) return exists(need);
  return [...folders].some((folder) => folder !== '' && exists(join(folder, need)));
}

/**
 * Runs a program and returns whether it succeeded. Its output is shown only if it failed, so that an error is not lost in
 * a thousand lines of unpacking. All goes to stderr, so that stdout stays clean for scripts.
 * @param {string} program
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 */
function succeeds(program, args, env = process.env) {
  const options = { cwd: root, env, encoding: /** @type {const} */ ('utf8'), maxBuffer: 256 * 1024 * 1024 };
  const { status, error, stdout, stderr } = spawnSync(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  if (status === 0) return true;
  const said = `${stdout ?? ''}${stderr ?? ''}`.trimEnd().split('\n').slice(-40).join('\n');
  process.stderr.write(`${error ? error.message : said}\n`);
  return false;
}

/** @param {readonly SystemPackage[]} packages */
function installDebianPackages(packages) {
  const names = packages.map((p) => p.name).join(' ');
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const quiet = ['-q', '-o', 'Dpkg::Use-Pty=0', '-o', 'DPkg::Lock::Timeout=300'];
  say('updating the lists of Debian packages');
  if (!succeeds('apt-get', [...quiet, 'update'], env)) say('that failed; trying with the lists that are there');
  say(`installing Debian packages, which may take minutes: ${names}`);
  const install = () => succeeds('apt-get', [...quiet, ...aptInstall(packages)], env);
  if (!(packages.some((p) => p.name === 'postgresql') ? withoutMainCluster(install) : install())) {
    stop(
      `apt-get could not install ${names}; its last words are above. Check the network and the apt sources, then run the command again.`,
    );
  }
  for (const p of packages) {
    const lacking = p.needs.filter((need) => !has(need));
    if (lacking.length > 0) {
      stop(
        `${p.name} is installed, yet ${lacking.join(', ')} is not there: install it by hand and run the command again.`,
      );
    }
  }
}

/**
 * Debian's PostgreSQL makes and starts a database cluster of its own when it is installed. We only want the programs, so
 * a drop-in disables that, only during our installation.
 * @param {() => boolean} install
 */
function withoutMainCluster(install) {
  const folder = '/etc/postgresql-common/createcluster.d';
  const dropIn = join(folder, 'ringfence-setup.conf');
  mkdirSync(folder, { recursive: true });
  writeFileSync(dropIn, 'create_main_cluster = false\n');
  try {
    return install();
  } finally {
    rmSync(dropIn, { force: true });
  }
}

/** @param {NpmPackages} packages */
function installNpmPackages(packages) {
  say('installing npm packages');
  // Under npm, use that same npm; the dev packages are asked for because NODE_ENV=production would leave them out.
  const own = process.env['npm_execpath'];
  const [program, ...first] = own?.endsWith('npm-cli.js') ? [process.execPath, own] : ['npm'];
  const args = [...first, 'ci', '--prefer-offline', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  if (packages === 'program') args.push('--workspaces=false');
  if (!succeeds(program ?? 'npm', args)) {
    stop('npm ci failed; its last words are above. Check the network or npm cache, then run the command again.');
  }
  writeFileSync(stampFile, stampOf(packages));
}

/**
 * Kept inside node_modules by the last set-up. Other lock, other platform or other Node ABI: other node_modules.
 * @param {NpmPackages} packages
 */
function stampOf(packages) {
  const lock =
    readIfThere(join(root, 'package-lock.json')) ?? stop('package-lock.json is missing: is this a whole clone?');
  const digest = createHash('sha256').update(lock).digest('hex');
  return `${digest} ${process.platform}-${process.arch} ${process.versions.modules} ${packages}\n`;
}

/** @returns {'none' | NpmPackages} */
function installedNpmPackages() {
  const stamp = readIfThere(stampFile);
  return /** @type {const} */ (['all', 'program']).find((packages) => stamp === stampOf(packages)) ?? 'none';
}

const parsed = parseArguments(process.argv.slice(2));
if ('message' in parsed) {
  say(parsed.message);
  process.exit(2);
}
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const steps = plan(parsed.purpose, {
  nodeVersion: process.versions.node,
  requiredNode: manifest.engines.node,
  installed: installedNpmPackages(),
  has,
  root: process.getuid?.() === 0,
  apt: has('apt-get'),
});
for (const step of steps) {
  if (step.do === 'stop') stop(step.message);
  else if (step.do === 'apt') installDebianPackages(step.packages);
  else installNpmPackages(step.packages);
}
if (steps.length > 0) say('ready');
