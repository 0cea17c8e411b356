/** Proves that a program started by a test does not outlive it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { eventually } from './eventually.ts';
import { mortal } from './mortal.ts';

/** False also for one that has ended and was not yet asked about by its parent. */
function alive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('a program that a test started ends when the test is killed', async () => {
  const command = JSON.stringify(mortal('sleep', ['600']));
  const script = `const child = require('node:child_process').spawn(...${command}, { stdio: 'ignore' });
    child.on('spawn', () => console.log(child.pid)); setInterval(() => {}, 1000);`;
  const parent = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    // The tie is made once `setpriv` has become the program.
    const isSleep = (): boolean => readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'sleep';
    await eventually('setpriv is the program', isSleep);
    expect(alive(pid)).toBe(true);
    parent.kill('SIGKILL');
    await once(parent, 'exit');
    await eventually('the program ends too', () => !alive(pid));
  } finally {
    parent.kill('SIGKILL');
  }
});
