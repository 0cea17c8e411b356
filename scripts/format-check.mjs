/**
 * Checks that every file is formatted. Prettier takes most of a minute of a processor for all files; oxfmt, which prints the same but for a
 * few unions and calls, takes a second. So a file that oxfmt would leave as it is counts as formatted, and Prettier judges all others.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @param {'oxfmt' | 'prettier'} tool @param {readonly string[]} args */
function run(tool, args) {
  const file = fileURLToPath(new URL(`../node_modules/.bin/${tool}`, import.meta.url));
  const { status, stdout, error } = spawnSync(process.execPath, [file, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', tool === 'oxfmt' ? 'ignore' : 'inherit'],
  });
  if (error !== undefined) throw error;
  return { status, stdout };
}

/** Programs without an ending, which oxfmt does not know by their first line. */
const unknown = readdirSync('bin').map((name) => `bin/${name}`);
const { status, stdout } = run('oxfmt', ['--list-different', '.']);
const doubtful = stdout.split('\n').filter((path) => path !== '');
// A file that it cannot read is not in its list, and one that did not run lists nothing: then Prettier looks at everything, and says what is wrong.
const isTold = status === 0 || (status === 1 && doubtful.length > 0);
const files = isTold ? [...doubtful, ...unknown] : ['.'];
const verdict = run('prettier', ['--check', '--log-level', 'warn', '--ignore-unknown', ...files]);
process.stdout.write(verdict.stdout);
process.exitCode = verdict.status ?? 1;
