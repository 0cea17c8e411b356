/** Owns the decisions of set-up: what is to be done, from what was found. No effects; `setup.mjs` has those. */
import { purposes, systemPackages } from './packages.mjs';

/** @import { Purpose, SystemPackage } from './packages.mjs' */

/**
 * What is installed by npm: what the program is built from, or what checks, tests, benchmarks and types need too
 * (`test/package.json`), which is as much again.
 * @typedef {'program' | 'all'} NpmPackages
 */

/**
 * What was found on the machine.
 * @typedef {object} Found
 * @property {string} nodeVersion as in `process.versions.node`
 * @property {string} requiredNode as in package.json's `engines.node`, of the form `>=20.19`
 * @property {'none' | NpmPackages} installed the npm packages that are there, as the lock file is now
 * @property {(need: string) => boolean} has whether a program or path exists
 * @property {boolean} root
 * @property {boolean} apt whether `apt-get` exists
 */

/**
 * One thing to do. `stop` ends set-up with a message.
 * @typedef {{do: 'npm', packages: NpmPackages} | {do: 'apt', packages: readonly SystemPackage[]} | {do: 'stop', message: string}} Step
 */

/**
 * The purpose named on the command line, or a message for the person who mistyped it.
 * @param {readonly string[]} args
 * @returns {{purpose: Purpose} | {message: string}}
 */
export function parseArguments(args) {
  const purpose = purposes.find((p) => p === args[1]);
  if (args.length === 2 && args[0] === '--for' && purpose !== undefined) return { purpose };
  return { message: `usage: node scripts/setup.mjs --for ${purposes.join('|')}` };
}

/**
 * @param {string} version
 * @param {string} required
 */
export function nodeIsNewEnough(version, required) {
  const numbers = (/** @type {string} */ text) =>
    text
      .replace(/^[^\d]*/, '')
      .split('.')
      .map(Number);
  const have = numbers(version);
  for (const [i, want] of numbers(required).entries()) {
    const got = have[i] ?? 0;
    if (got !== want) return got > want;
  }
  return true;
}

/**
 * @param {Purpose} purpose
 * @param {(need: string) => boolean} has
 * @param {readonly SystemPackage[]} [list]
 */
export function missingPackages(purpose, has, list = systemPackages) {
  return list.filter((p) => p.for.includes(purpose) && !p.needs.every((need) => has(need)));
}

/**
 * @param {Purpose} purpose
 * @returns {NpmPackages}
 */
const npmPackagesFor = (purpose) => (purpose === 'start' || purpose === 'lab' ? 'program' : 'all');

/** @param {readonly SystemPackage[]} packages */
export const aptInstall = (packages) => ['install', '-y', '--no-install-recommends', ...packages.map((p) => p.name)];

/**
 * The one command that a person without root's rights is asked to run.
 * @param {readonly SystemPackage[]} packages
 */
export const commandForRoot = (packages) => `sudo sh -c 'apt-get update && apt-get ${aptInstall(packages).join(' ')}'`;

/** @param {readonly SystemPackage[]} packages */
const explain = (packages) => packages.map((p) => `  ${p.name.padEnd(12)} ${p.why}`).join('\n');

/**
 * Everything to do, in order. An empty plan is the usual case.
 * @param {Purpose} purpose
 * @param {Found} found
 * @returns {readonly Step[]}
 */
export function plan(purpose, found) {
  if (!nodeIsNewEnough(found.nodeVersion, found.requiredNode)) {
    const message = `Node ${found.requiredNode} is needed, this is ${found.nodeVersion}: install a newer Node (nodejs.org) and run the command again.`;
    return [{ do: 'stop', message }];
  }
  /** @type {Step[]} */
  const steps = [];
  const missing = missingPackages(purpose, found.has);
  if (missing.length > 0) {
    if (!found.apt) {
      const message = `These programs are missing, and there is no apt-get here to install them with:\n${explain(missing)}\nInstall them with this system's own package manager and run the command again.`;
      return [{ do: 'stop', message }];
    }
    if (!found.root) {
      const message = `These Debian packages are missing, and only root may install them:\n${explain(missing)}\nRun this, then the command again:\n\n  ${commandForRoot(missing)}\n`;
      return [{ do: 'stop', message }];
    }
    steps.push({ do: 'apt', packages: missing });
  }
  const packages = npmPackagesFor(purpose);
  if (found.installed !== packages && found.installed !== 'all') steps.push({ do: 'npm', packages });
  return steps;
}
