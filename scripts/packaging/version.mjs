/** Owns the version and the date of a build: the version is in package.json, the date in the history of the source. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const top = fileURLToPath(new URL('../..', import.meta.url));

/** @returns {string} */
export const packageVersion = () => JSON.parse(readFileSync(`${top}package.json`, 'utf8')).version;

/**
 * The commit that a build is made from, in short; empty for a release, whose commit has the tag of its version, and where there is no history.
 * @param {string} [folder]
 * @returns {string}
 */
export function buildCommit(folder = top) {
  /** @param {readonly string[]} args */
  const git = (args) => spawnSync('git', args, { cwd: folder, encoding: 'utf8' });
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  const tags = git(['tag', '--points-at', 'HEAD']);
  if (tags.status !== 0 || tags.stdout.split('\n').includes(`v${version}`)) return '';
  return git(['rev-parse', '--short=10', 'HEAD']).stdout.trim();
}

/**
 * Debian sorts `~` before everything: 1.0.0-beta.1 comes before 1.0.0 there too.
 * @param {string} version
 */
export const debianVersion = (version) => `${version.replace('-', '~')}-1`;

/**
 * Seconds since 1970 that every file of a build carries: `SOURCE_DATE_EPOCH`, else the time of the commit, else of the newest
 * release in the changelog, so that the same source gives the same bytes wherever and whenever it is built.
 * @returns {number}
 */
export function sourceDate() {
  const given = process.env['SOURCE_DATE_EPOCH'] ?? '';
  if (/^\d+$/.test(given)) return Number(given);
  const git = spawnSync('git', ['log', '-1', '--format=%ct'], { cwd: top, encoding: 'utf8' });
  if (git.status === 0 && /^\d+\n$/.test(git.stdout)) return Number(git.stdout);
  const [, day] = /^## \[\d[^\]]*\] - (\d{4}-\d{2}-\d{2})$/m.exec(readFileSync(`${top}CHANGELOG.md`, 'utf8')) ?? [];
  if (day === undefined) throw new Error('set SOURCE_DATE_EPOCH: there is no git history and no dated release here');
  return Date.parse(`${day}T00:00:00Z`) / 1000;
}
