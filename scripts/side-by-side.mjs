/**
 * Runs npm scripts side by side: `node scripts/side-by-side.mjs types lint`. Each tells when it is through, with all that it said if it
 * failed; none is cut short by another, so that one run shows everything that is wrong.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * The compiler and the linter are written in Go. Processes that end after seconds need not collect what they no longer use: that took a
 * tenth of their time, and without it they hold a tenth more at most.
 */
const env = { GOGC: 'off', ...process.env };

/** @param {string} script */
async function run(script) {
  const child = spawn('npm', ['run', '--silent', script], { stdio: ['ignore', 'pipe', 'pipe'], env });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (/** @type {string} */ text) => (said += text));
  }
  const [code] = await once(child, 'close');
  process.stderr.write(code === 0 ? `${script}: good\n` : `${said}${script}: failed\n`);
  return code === 0;
}

const done = await Promise.all(process.argv.slice(2).map(run));
process.exitCode = done.every(Boolean) ? 0 : 1;
