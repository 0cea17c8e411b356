/** Proves that scripts run side by side succeed only together, and that the output of a failed one is shown. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

const program = fileURLToPath(new URL('side-by-side.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'rf-scripts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const scripts = { one: 'exit 0', two: 'exit 0', wrong: 'echo what is wrong; exit 3' };
writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'x', version: '1.0.0', scripts }));

const run = (...names: readonly string[]) =>
  spawnSync(process.execPath, [program, ...names], { cwd: folder, encoding: 'utf8' });

it('all good is good', () => {
  const { status, stderr } = run('one', 'two');
  expect(status).toBe(0);
  expect(stderr.trim().split('\n').toSorted()).toEqual(['one: good', 'two: good']);
});

it('one that fails fails them all, after the others are through, and says why', () => {
  const { status, stderr } = run('wrong', 'one');
  expect(status).toBe(1);
  expect(stderr).toContain('what is wrong\nwrong: failed\n');
  expect(stderr).toContain('one: good');
});

it('a script that does not exist fails too', () => {
  expect(run('one', 'missing').status).toBe(1);
});

it('a command beside them is shown as it runs, and fails them all if it fails', () => {
  const said = run('one', '--', process.execPath, '-e', 'console.log("seen")');
  expect(said).toMatchObject({ status: 0, stdout: 'seen\n', stderr: 'one: good\n' });
  expect(run('one', '--', process.execPath, '-e', 'process.exit(4)').status).toBe(1);
  const wrong = run('wrong', '--', process.execPath, '-e', 'console.log("seen")');
  expect(wrong).toMatchObject({ status: 1, stdout: 'seen\n' });
  expect(wrong.stderr).toMatch(/what is wrong\nwrong: failed\n$/);
});
