/**
 * Runs npm scripts side by side: `node scripts/side-by-side.mjs types lint`, or beside a command that is watched: `…
 * types lint -- vitest run`. Each script reports its end, and its whole output at the end if it failed. None is cut
 * short by another, so that one run shows everything that is wrong.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * The compiler and the linter are written in Go. Processes that end after seconds need not collect what they no longer use: that took a
 * tenth of their time, and without it they hold a tenth more at most. Each takes one processor: with two, a type is often worked out twice, which
 * takes a fifth more.
 */
const env = { GOGC: 'off', GOMAXPROCS: '1', ...process.env };

/** @type {string[]} */
const failures = [];

/** @param {string} script */
async function run(script) {
  const child = spawn('npm', ['run', '--silent', script], { stdio: ['ignore', 'pipe', 'pipe'], env });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (/** @type {string} */ text) => (said += text));
  }
  const [code] = await once(child, 'close');
  process.stderr.write(code === 0 ? `${script}: good\n` : `${script}: failed\n`);
  if (code !== 0) failures.push(`${said}${script}: failed\n`);
}

/**
 * The one that is watched: what it says is shown while it runs.
 * @param {readonly string[]} command
 */
async function show([program, ...args]) {
  if (program === undefined) return;
  const child = spawn(program, args, { stdio: 'inherit' });
  const [code] = await once(child, 'close');
  if (code !== 0) failures.push(`${program}: failed\n`);
}

const args = process.argv.slice(2);
const end = args.includes('--') ? args.indexOf('--') : args.length;
await Promise.all([...args.slice(0, end).map(run), show(args.slice(end + 1))]);
// At the end, where it is found after much else was said.
for (const failure of failures) process.stderr.write(failure);
process.exitCode = failures.length === 0 ? 0 : 1;
